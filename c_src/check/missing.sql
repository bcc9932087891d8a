-- SPDX-License-Identifier: Apache-2.0
-- What kymo itself did not record.
-- Any loss, and any time in which the budget left something out.
select printf('kymo lost %d events (%s): answers about these times may be incomplete', total(events), cause) as finding,
       0.2 as weight, 'info REC' as more
from losses where events > 0 group by cause
union all
select printf('kymo left out %s for %s of %s to keep its budget', group_concat(distinct coalesce(function, events)),
              duration(total(coalesce(to_ns, recording_end_ns()) - from_ns)), duration(recorded_ns())), 0.1, 'info REC'
from shed having count(*) > 0;
