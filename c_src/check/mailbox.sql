-- SPDX-License-Identifier: Apache-2.0
-- A process whose mailbox is long, and whether it grows.
-- At least 1,000 messages in its longest sample, and in its last one or in half of all samples: a burst that is gone is none.
with samples as materialized (
    select process, pid, value, time_ns from counters where counter = 'mailbox_length'
), long as materialized (
    select process, pid, max(value) as most, min(time_ns) as first, max(time_ns) as last, count(*) as n
    from samples group by pid
    having most >= 1000
       and (max(time_ns) filter (where value >= 1000) = (select max(time_ns) from samples)
            or count(*) filter (where value >= 1000) * 2 >= (select count(distinct time_ns) from samples))
)
select printf('The mailbox of %s has up to %d messages', coalesce(names.name, long.process), most)
           || case when n > 1 then printf(': it changed from %d to %d in %s',
                   (select value from samples s where s.pid = long.pid and time_ns = first),
                   (select value from samples s where s.pid = long.pid and time_ns = last),
                   duration(last - first)) else '' end as finding,
       min(0.95, 0.5 + most / 1e5) as weight,
       'mailboxes REC' as more
from long left join names using (pid);
