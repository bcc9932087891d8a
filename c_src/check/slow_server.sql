-- SPDX-License-Identifier: Apache-2.0
-- A server that takes long to handle a request, and where it waits for what.
-- At least three requests that were handled for 50 ms or more, in all a fifth of the recording and half of their duration.
with ran as materialized (
    select pid, total(running_ns + dirty_ns) as ns from places where pid in (select server_pid from servers where slow) group by pid
)
select printf('%s takes %s to handle %s, on average of %d; it runs for %.0f %% of the time', coalesce(names.name, server), duration(long_ns),
              case when long_io = long then 'an I/O request (io:format and the like: it is the group leader or the device)' else 'a request' end, long,
              100.0 * coalesce(ran.ns, 0) / recorded_ns())
           || coalesce(', and ' || longest.words, '') as finding,
       min(0.9, 0.3 + 0.6 * long * long_ns / recorded_ns()) as weight,
       'requests REC' as more
from servers
left join ran on ran.pid = server_pid
left join longest on longest.pid = server_pid and longest.ns * 20 >= recorded_ns()
left join names on names.pid = server_pid
where slow;
