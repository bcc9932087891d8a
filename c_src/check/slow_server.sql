-- SPDX-License-Identifier: Apache-2.0
-- A server that takes long to handle a request, and where it waits.
-- At least three requests, handled for 50 ms or more on average, at least half of their duration.
with slow as materialized (
    select server_pid, server, count(*) as n, avg(handling_ns) as ns
    from requests where kind = 'call' and handling_ns is not null
    group by server_pid having n >= 3 and ns >= 5e7 and total(handling_ns) * 2 >= total(duration_ns)
), outs as materialized (
    select pid, out_function, exited, end_ns, duration_ns, lead(start_ns) over (partition by pid order by start_ns) as again_ns
    from running where pid in (select server_pid from slow)
), waits as materialized (
    select pid, out_function as function, total(again_ns - end_ns) as ns
    from outs where not exited and out_function not in ('gen_server:loop/7', 'gen_server:loop/4', 'gen_server:loop/5') group by pid, out_function
), ran as materialized (
    select pid, total(duration_ns) as ns from outs group by pid
)
select printf('%s takes %s to handle a request, on average of %d; it runs for %.0f %% of the time', server, duration(slow.ns), n,
              100.0 * coalesce(ran.ns, 0) / recorded_ns())
           || coalesce((select printf(', and waits in %s for %.0f %%', function, 100.0 * ns / recorded_ns())
                        from waits where waits.pid = server_pid and ns * 20 >= recorded_ns() order by ns desc limit 1), '') as finding,
       min(0.9, 0.3 + 0.6 * n * slow.ns / recorded_ns()) as weight,
       'requests REC' as more
from slow left join ran on ran.pid = server_pid;
