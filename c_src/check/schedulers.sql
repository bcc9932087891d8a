-- SPDX-License-Identifier: Apache-2.0
-- More processes want to run than there are schedulers.
-- They are 90 % busy or more, and as many processes as there are schedulers wait on average.
with samples as materialized (
    select avg(value) filter (where counter = 'run_queue') as waiting,
           avg(value) filter (where counter = 'schedulers_utilization') / 1e6 as busy,
           max(scheduler) as schedulers
    from counters
)
select printf('%s %.0f %% busy, and %s for one on average',
              case schedulers when 1 then 'The scheduler is' else printf('All %d schedulers are', schedulers) end, 100 * busy,
              case round(waiting) when 1 then '1 process waits' else printf('%.0f processes wait', waiting) end) as finding,
       min(0.9, busy * waiting / (waiting + schedulers)) as weight,
       'top REC' as more
from samples
where busy >= 0.9 and waiting >= schedulers;
