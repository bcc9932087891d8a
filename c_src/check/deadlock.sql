-- SPDX-License-Identifier: Apache-2.0
-- Processes that wait for each other: their open requests form a cycle.
-- At most eight processes. A request from before the recording is known from the process that its client monitors.
with recursive waits(client_pid, client, server_pid, server) as materialized (
    select client_pid, client, server_pid, server from requests where kind = 'call' and ended = 'open'
    union
    select pid, process, waits_for_pid, waits_for from observed
    where kind = 'waits' and waits_for_pid is not null
      and (select min(running_ns, messages_ns) >= recording_end_ns() or min(running_ns, messages_ns) - time_ns >= 1e8 from complete)
      and not exists (select 1 from requests where client_pid = observed.pid)
      and not exists (select 1 from running where running.pid = observed.pid and running.end_ns > observed.time_ns
                                              and (running.exited or running.out_function <> observed.function))
), open as materialized (
    select client_pid, coalesce(c.name, client) as client, server_pid, coalesce(s.name, server) as server
    from waits left join names c on c.pid = client_pid left join names s on s.pid = server_pid
), path(first, at, names, depth) as (
    select client_pid, server_pid, client || ' waits for ' || server, 1 from open
    union all
    select first, open.server_pid, names || ', ' || open.client || ' waits for ' || open.server, depth + 1
    from path join open on open.client_pid = path.at
    where path.at <> path.first and depth < 8 and open.client_pid > path.first
)
select 'Deadlock: ' || names as finding, 1.0 as weight,
       case when exists (select 1 from requests where client_pid = first and ended = 'open') then 'requests REC'
            else 'print REC --events observed' end as more
from path where at = first
group by first;
