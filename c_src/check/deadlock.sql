-- SPDX-License-Identifier: Apache-2.0
-- Processes that wait for each other: their open requests form a cycle.
-- At most eight processes; all requests are in the recording.
with recursive open as materialized (
    select client_pid, client, server_pid, server from requests where kind = 'call' and ended = 'open'
), path(first, at, names, depth) as (
    select client_pid, server_pid, client || ' waits for ' || server, 1 from open
    union all
    select first, open.server_pid, names || ', ' || open.client || ' waits for ' || open.server, depth + 1
    from path join open on open.client_pid = path.at
    where path.at <> path.first and depth < 8 and open.client_pid > path.first
)
select 'Deadlock: ' || names as finding, 1.0 as weight, 'requests REC' as more
from path where at = first
group by first;
