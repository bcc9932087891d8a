-- SPDX-License-Identifier: Apache-2.0
-- Large terms that are copied to processes: in messages, out of ETS tables, or by other functions of the runtime.
-- At least 64 MiB per second to the processes of one role, and 64 KiB per collection that has any.
-- Terms that do not fit in the heap are added to it in fragments, which the next collection counts.
with copied as materialized (
    select kind, max(name) as name, count(distinct pid) as processes, total(fragments_before - fragments_after) * 8 as size, count(*) as n
    from collections join names using (pid) where fragments_before - fragments_after > 1024
    group by kind
    having total(fragments_before - fragments_after) * 8 >= 67108864.0 * recorded_ns() / 1e9 and avg(fragments_before - fragments_after) * 8 >= 65536
), carried as materialized (
    select copied.kind, sender_pid, max(messages.kind) as what, total(words is null) as large, count(*) as all_of_it,
           total(words) * 8 as size, count(distinct receiver_pid) as receivers
    from copied join names on names.kind = copied.kind join messages on receiver_pid = names.pid
    where sender_pid is not null group by copied.kind, sender_pid
), brought as materialized (
    select kind, total(large) as large, total(size) as size from carried group by kind
), most as materialized (
    select *, row_number() over (partition by kind order by large desc, size desc) as nth from carried
)
select printf('At least %s of terms per second are copied to %s, %s each time', bytes(copied.size * 1e9 / recorded_ns()),
              case processes when 1 then copied.name else printf('%d processes of %s', processes, copied.kind) end, bytes(copied.size / n))
           || case when most.large * 4 >= n or most.size * 4 >= copied.size
                   then printf('. %s sent %s %d %smessages%s', names.name, case processes when 1 then 'it' else 'them' end,
                               case when most.large > 0 then most.large else all_of_it end, case when most.large > 0 then 'large ' else '' end,
                               case what when 'reply' then ': replies to calls, as of gen_server:call/2 or sys:get_state/1' else '' end)
                   when coalesce(brought.large, 0) * 20 < n and coalesce(brought.size, 0) * 20 < copied.size and messages_ns = recording_end_ns()
                   then '. Hardly any came in messages, so built-in functions have copied or built them, such as ets:lookup/2, '
                        || 'binary_to_term/1 or ++' else '' end as finding,
       min(0.9, 0.2 + copied.size / recorded_ns()) as weight,
       'stats REC --by process --sort gc' as more
from copied join complete left join brought on brought.kind = copied.kind
left join most on most.kind = copied.kind and nth = 1 left join names on names.pid = sender_pid;
