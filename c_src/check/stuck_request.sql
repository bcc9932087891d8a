-- SPDX-License-Identifier: Apache-2.0
-- Requests that had no reply for long, by server, with what the server does.
-- The oldest one has been open for half a second or more.
with open as materialized (
    select server, server_pid, count(*) as n, count(distinct client_pid) as clients, max(client) as client,
           recording_end_ns() - min(sent_ns) as ns
    from requests where kind in ('call', 'io') and ended = 'open' group by server_pid
), last as materialized (
    select pid, out_function as function, max(start_ns), end_ns from running group by pid
)
select printf('%d %s to %s %s no reply, the oldest for %s; %d %s, such as %s', n, case n when 1 then 'request' else 'requests' end,
              server, case n when 1 then 'has' else 'have' end, duration(ns), clients,
              case clients when 1 then 'process waits' else 'processes wait' end, client)
           || case when last.function is null then '' when end_ns is null then printf('. %s is running', server)
                   else printf('. %s waits in %s', server, last.function) end as finding,
       min(1.0, 0.4 + 0.6 * ns / recorded_ns()) as weight,
       'requests REC' as more
from open left join last on last.pid = server_pid
where ns >= 5e8;
