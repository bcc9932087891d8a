-- SPDX-License-Identifier: Apache-2.0
-- Large terms that are copied to processes: in messages, out of ETS tables, or by other functions of the runtime.
-- At least 64 MiB per second to the processes of one role, and 64 KiB per collection that has any.
-- Terms that do not fit in the heap are added to it in fragments, which the next collection counts.
with starts as materialized (
    select pid, time_ns, details ->> '$.mbuf_size' as words, lead(event) over (partition by pid order by id) as next
    from events where event in ('gc_minor_start', 'gc_major_start', 'gc_minor_end', 'gc_major_end')
), copied as materialized (
    select kind, max(name) as name, count(distinct pid) as processes, total(words) * 8 as size, count(*) as n
    from starts join names using (pid) where words > 1024 and coalesce(next, '') not like '%start'
    group by kind having total(words) * 8 >= 67108864.0 * recorded_ns() / 1e9 and avg(words) * 8 >= 65536
), carried as materialized (
    select copied.kind, sender_pid, max(messages.kind) as what, count(*) as n, count(distinct receiver_pid) as receivers,
           row_number() over (partition by copied.kind order by count(*) desc) as nth
    from copied join names on names.kind = copied.kind join messages on receiver_pid = names.pid
    where words is null and sender_pid is not null group by copied.kind, sender_pid
)
select printf('%s of terms per second are copied to %s, %s each time', bytes(size * 1e9 / recorded_ns()),
              case processes when 1 then copied.name else printf('%d processes of %s', processes, copied.kind) end, bytes(size / copied.n))
           || case when s.pid is null then ': no large message brought them, so built-in functions have copied or built them, such as '
                                           || 'ets:lookup/2, binary_to_term/1 or ++'
                   else printf('. %s sent it %d large messages%s', s.name, carried.n,
                               case what when 'reply' then ': replies to calls, as of gen_server:call/2 or sys:get_state/1'
                                         else case receivers when 1 then '' else printf(', to %d processes', receivers) end end) end as finding,
       min(0.9, 0.2 + size / recorded_ns()) as weight,
       'stats REC --by process --sort gc' as more
from copied left join carried on carried.kind = copied.kind and nth = 1
left join names s on s.pid = carried.sender_pid;
