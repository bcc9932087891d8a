-- SPDX-License-Identifier: Apache-2.0
-- More processes want to run than there are schedulers.
-- They are 90 % busy or more, and as many processes as there are schedulers wait on average.
with samples as materialized (
    select avg(value) filter (where counter = 'run_queue') as waiting,
           avg(value) filter (where counter = 'schedulers_utilization') / 1e6 as busy,
           max(scheduler) as schedulers
    from counters
)
select printf('All %d schedulers are %.0f %% busy, and %.0f processes wait for one on average', schedulers, 100 * busy, waiting) as finding,
       min(0.9, busy * waiting / (waiting + schedulers)) as weight,
       'top REC' as more
from samples
where busy >= 0.9 and waiting >= schedulers;
