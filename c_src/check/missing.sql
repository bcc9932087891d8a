-- SPDX-License-Identifier: Apache-2.0
-- What kymo itself did not record.
-- Any loss, and any time in which the budget left something out.
select printf('kymo lost %s (%s): answers about these times may be incomplete', counted(total(events), 'event'), cause) as finding,
       0.2 as weight, 'info REC' as more
from losses where events > 0 group by cause
union all
select printf('kymo left out %s for %s of %s to keep its budget', what, duration(min(ns, recorded_ns())), duration(recorded_ns()))
           || case when what like '%running%' or what like '%messages%'
                   then '. Rules about waits and requests know nothing about these times' else '' end, 0.1, 'info REC'
from (select group_concat(what, ', ') as what, max(ns) as ns
      from (select coalesce(function, events) as what, total(coalesce(to_ns, recording_end_ns()) - from_ns) as ns
            from shed group by 1))
where what is not null;
