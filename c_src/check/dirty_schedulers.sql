-- SPDX-License-Identifier: Apache-2.0
-- Work waits for a dirty scheduler, because others occupy all of them.
-- One process or more waits for one on average, for a millisecond or more if waits were recorded.
with samples as materialized (
    select counter, avg(value) as waiting from counters where counter in ('run_queue_dirty_cpu', 'run_queue_dirty_io') group by counter
), users as materialized (
    select case substr(thread, 1, 1) when 'i' then 'run_queue_dirty_io' else 'run_queue_dirty_cpu' end as queue, kind,
           total(duration_ns) as ns
    from running join names using (pid) where dirty group by 1, 2
), waits as materialized (
    select case substr(thread, 1, 1) when 'i' then 'run_queue_dirty_io' else 'run_queue_dirty_cpu' end as queue, avg(waited_ns) as ns
    from running where dirty group by 1
)
select printf('%s for a dirty %s scheduler on average',
              case round(waiting) when 1 then '1 process waits' else printf('%.0f processes wait', waiting) end, case counter when 'run_queue_dirty_io' then 'I/O' else 'CPU' end)
           || coalesce('. ' || (select kind from users where users.queue = counter order by ns desc limit 1) || ' uses them most', '') as finding,
       0.7 as weight,
       'stats REC --by role' as more
from samples left join waits on waits.queue = counter
where waiting >= 1 and (ns is null or ns >= 1e6);
