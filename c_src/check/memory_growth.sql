-- SPDX-License-Identifier: Apache-2.0
-- A kind of memory of the node that grows, with the processes that ran most.
-- Means of the first and the last third of the recording differ by at least a tenth and 256 KiB per second.
with bounds as materialized (
    select min(time_ns) as first, (max(time_ns) - min(time_ns)) / 3 as third, max(time_ns) as last
    from counters where counter = 'memory_total'
), means as materialized (
    select counter,
           avg(value) filter (where time_ns <= first + third) as before,
           avg(value) filter (where time_ns >= last - third) as after,
           (max(third) * 2) / 1e9 as seconds
    from counters, bounds
    where counter in ('memory_processes', 'memory_binary', 'memory_ets', 'memory_atom', 'memory_code')
    group by counter
), busiest as materialized (
    select group_concat(process, ' and ') as names
    from (select process from processes where running_ns > 0 order by running_ns desc limit 2)
), largest as materialized (
    select process, max(value) as size from counters where counter = 'heap_size' and rank = 1
)
select printf('The memory of %s grows by %s per second, to %s',
              case counter when 'memory_processes' then 'processes' when 'memory_binary' then 'binaries'
                           when 'memory_ets' then 'ETS tables' when 'memory_atom' then 'atoms' else 'code' end,
              bytes((after - before) / seconds), bytes(after))
           || case when counter = 'memory_processes' and largest.process is not null
                   then printf('. The largest heap is that of %s, %s', largest.process, bytes(largest.size)) else '' end
           || coalesce('. ' || busiest.names || ' ran most in that time', '') as finding,
       min(0.9, 0.3 + (after - before) / after) as weight,
       'info REC' as more
from means, busiest, largest
where seconds >= 0.5 and after - before >= 262144 * seconds and after - before >= before / 10;
