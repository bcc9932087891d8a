-- SPDX-License-Identifier: Apache-2.0
-- Processes of one kind that crash or are killed again and again, with the reason.
-- At least three were started and ended like this during the recording.
select printf('%s ends again and again: %d times in %s with reason %s%s, on average %s after its start%s',
              kind, count(*), duration(recorded_ns()), coalesce(exit_reason, 'unknown'), coalesce(' in ' || exit_function, ''), duration(avg(end_ns - start_ns)),
              case when max(parent) is null then '' else '. ' || max(parent) || ' starts it' end) as finding,
       min(1.0, 0.3 + count(*) * 1e8 / recorded_ns()) as weight,
       'sql REC "select * from processes where exit_reason is not null"' as more
from processes join names using (pid)
where start_ns is not null and end_ns is not null
  and coalesce(exit_reason, 'unknown') not in ('normal', 'shutdown', 'noproc', 'noconnection', 'unknown')
group by kind, exit_reason, exit_function
having count(*) >= 3;
