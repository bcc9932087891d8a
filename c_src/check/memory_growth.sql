-- SPDX-License-Identifier: Apache-2.0
-- A kind of memory of the node that grows, with the processes that ran most, or that hold ever more binaries.
-- Means of the first and the last third of the recording differ by at least a tenth and 256 KiB per second, a fifth of it after the second third.
with bounds as materialized (
    select min(time_ns) as first, (max(time_ns) - min(time_ns)) / 3 as third, max(time_ns) as last
    from counters where counter = 'memory_total'
), means as materialized (
    select counter,
           avg(value) filter (where time_ns <= first + third) as before,
           avg(value) filter (where time_ns > first + third and time_ns < last - third) as between_them,
           avg(value) filter (where time_ns >= last - third) as after,
           (max(third) * 2) / 1e9 as seconds
    from counters, bounds
    where counter in ('memory_processes', 'memory_binary', 'memory_ets', 'memory_atom', 'memory_code')
    group by counter
), grows as materialized (
    select * from means
    where seconds >= 0.5 and after - before >= 262144 * seconds and after - before >= before / 10
      -- It also grows from the second third to the last: one step is no growth.
      and (between_them is null or (after - between_them) * 5 >= after - before)
), largest as materialized (
    select process, max(value) as size from counters where counter = 'heap_size' and process not like '%kymo\_%' escape '\'
), refers as materialized (
    select pid, 8 * max(binaries) filter (where nth = 1) as before, 8 * max(binaries) filter (where last = 1) as after
    from (select pid, binaries_after as binaries, row_number() over (partition by pid order by end_ns) as nth,
                 row_number() over (partition by pid order by end_ns desc) as last from collections
          where end_ns is not null and exists (select 1 from grows where counter = 'memory_binary'))
    group by pid
), holder as materialized (
    select name, before, max(after - before) as grown, after from refers join names using (pid)
)
select printf('The memory of %s grows by %s per second, to %s',
              case counter when 'memory_processes' then 'processes' when 'memory_binary' then 'binaries'
                           when 'memory_ets' then 'ETS tables' when 'memory_atom' then 'atoms' else 'code' end,
              bytes((grows.after - grows.before) / seconds), bytes(grows.after))
           || case when counter = 'memory_processes' and largest.process is not null
                   then printf('. The largest heap is that of %s, %s', largest.process, bytes(largest.size)) else '' end
           || case when counter = 'memory_binary' and grown * 4 >= grows.after - grows.before
                   then printf('. %s refers to ever more of it after its collections (virtual binary heap): %s, then %s. A part of a '
                               || 'binary keeps all of it', holder.name, bytes(holder.before), bytes(holder.after))
                   else coalesce('. ' || busiest.names || ' ran most in that time', '') end as finding,
       min(0.9, 0.3 + (grows.after - grows.before) / grows.after) as weight,
       'info REC' as more
from grows, busiest, largest, holder;
