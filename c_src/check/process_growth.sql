-- SPDX-License-Identifier: Apache-2.0
-- A kind of processes that is started more often than it ends.
-- At least 50 were started, and at most half as many have ended; the node's counter grows, too.
with counted as materialized (
    select max(value) filter (where time_ns = last) - max(value) filter (where time_ns = first) as grown
    from counters, (select min(time_ns) as first, max(time_ns) as last from counters where counter = 'process_count')
    where counter = 'process_count'
)
select printf('Processes of %s grow in number: %d were started in %s and %d of them have ended, a leak of %d per second',
              kind, count(*), duration(recorded_ns()), count(end_ns), (count(*) - count(end_ns)) * 1e9 / recorded_ns())
           || case when max(parent) is null then '' else '. ' || max(parent) || ' starts them' end as finding,
       0.6 as weight,
       'stats REC --by role' as more
from processes join names using (pid), counted
where start_ns is not null
group by kind
having count(*) >= 50 and count(end_ns) <= count(*) / 2 and grown >= (count(*) - count(end_ns)) / 2;
