-- SPDX-License-Identifier: Apache-2.0
-- Processes of one role that use most of the processor time, and the function in which they run.
-- At least half of the recorded running time, and a quarter of a processor by the utilization of the schedulers.
with used as materialized (
    select avg(value) filter (where counter = 'schedulers_utilization') / 1e6 as busy, max(scheduler) as schedulers from counters
), kinds as materialized (
    select pid, role, process, running_ns from processes
), ran as materialized (
    select role, out_function as function, total(duration_ns) as ns
    from running join kinds using (pid) where not dirty and duration_ns is not null group by role, out_function
), roles as materialized (
    select role, total(ns) as ns, max(ns) as most, total(ns) / (select total(ns) from ran) as part from ran group by role
), found as materialized (
    select *, part * busy * schedulers as processors from roles, used where part >= 0.5
)
select printf('%s uses %.1f of %d processors; its runs end mostly in %s (%.0f %% of its running time)',
              (select case count(*) when 1 then max(process)
                          else printf('%s (%d processes, most of it %s)', role, count(*),
                                      (select process from kinds k where k.role = found.role order by running_ns desc limit 1)) end
               from kinds where kinds.role = found.role),
              processors, schedulers,
              (select function from ran where ran.role = found.role and ran.ns = most), 100.0 * most / ns) as finding,
       min(0.95, max(part * busy, 0.6 * min(1.0, processors))) as weight,
       'stats REC --by role' as more
from found
where processors >= 0.25;
