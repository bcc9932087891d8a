-- SPDX-License-Identifier: Apache-2.0
-- The operating system gives the schedulers less processor time than they have work for.
-- They have work for half a processor or more, and get less than 60 % of it.
with samples as materialized (
    select (select total(v) from (select avg(value) / 1e6 as v from counters where counter = 'scheduler_utilization' group by scheduler)) as wanted,
           (select avg(per_second) / 1e9 from counters where counter = 'cpu_time') as given
)
select printf('The schedulers are busy as %.1f processors, but the operating system gave the node %.1f: other programs, or a limit of '
              || 'the container, take the rest', wanted, given) as finding,
       min(1.0, (wanted - given) / wanted) as weight,
       'top REC' as more
from samples where wanted >= 0.5 and given < 0.6 * wanted;
