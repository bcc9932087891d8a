-- SPDX-License-Identifier: Apache-2.0
-- Processes that spend much of their running time in garbage collections, and who asks for these.
-- A third of it or more by the processes of one role, and a tenth of the recording or more.
with found as materialized (
    select kind, count(*) as n, max(process) as process, max(name) as name, total(gc_ns) as gc_ns, total(running_ns) as running_ns,
           total(collections) as collections
    from processes join names using (pid, process) where running_ns > 0
    group by kind having total(gc_ns) * 3 >= total(running_ns) and total(gc_ns) * 10 >= recorded_ns()
), collected as materialized (
    select pid, kind from names where kind in (select kind from found)
), asked as materialized (
    select collected.kind, receiver_pid as pid, count(*) as n,
           row_number() over (partition by collected.kind order by count(*) desc) as nth
    from messages join collected on collected.pid = sender_pid
    where receiver_pid in (select pid from places where function like 'erlang:garbage_collect/_')
    group by collected.kind, receiver_pid
)
select printf('%s spend%s %.0f %% of %s running time in garbage collections: %s in %s',
              case n when 1 then name else printf('%d processes of %s', n, kind) end, case n when 1 then 's' else '' end,
              100.0 * gc_ns / running_ns, case n when 1 then 'its' else 'their' end, duration(gc_ns), counted(collections, 'collection'))
           || coalesce((select printf('. %s asks for collections (erlang:garbage_collect/1), and got %s from %s', names.name, counted(asked.n, 'answer'),
                                      case found.n when 1 then 'it' else 'them' end)
                        from asked join names using (pid) where asked.kind = found.kind and nth = 1 and asked.n * 2 >= collections), '') as finding,
       min(0.9, gc_ns * 1.0 / recorded_ns()) as weight,
       'stats REC --by process --sort gc' as more
from found;
