-- SPDX-License-Identifier: Apache-2.0
-- A server that takes long to handle a request, and where it waits for what.
-- At least three requests that were handled for 50 ms or more, in all a fifth of the recording and half of their duration.
with slow as materialized (
    select server_pid, server, count(*) as n, avg(handling_ns) as ns, total(kind = 'io') as io
    from requests where kind in ('call', 'io') and handling_ns >= 5e7
    group by server_pid having n >= 3 and total(handling_ns) * 5 >= recorded_ns() and total(handling_ns) * 2 >= total(duration_ns)
), ran as materialized (
    select pid, total(running_ns + dirty_ns) as ns from places where pid in (select server_pid from slow) group by pid
)
select printf('%s takes %s to handle %s, on average of %d; it runs for %.0f %% of the time', coalesce(names.name, server), duration(slow.ns),
              case when io = n then 'an I/O request (io:format and the like: it is the group leader or the device)' else 'a request' end, n,
              100.0 * coalesce(ran.ns, 0) / recorded_ns())
           || coalesce(', and ' || longest.words, '') as finding,
       min(0.9, 0.3 + 0.6 * n * slow.ns / recorded_ns()) as weight,
       'requests REC' as more
from slow
left join ran on ran.pid = server_pid
left join longest on longest.pid = server_pid and longest.ns * 20 >= recorded_ns()
left join names on names.pid = server_pid;
