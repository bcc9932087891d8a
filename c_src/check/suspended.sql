-- SPDX-License-Identifier: Apache-2.0
-- Processes that are suspended.
-- Suspended when tracing began, and scheduled out in one function only (where it handles signals).
with still as materialized (
    select process, function, idle, called_from, mailbox from observed, complete
    where kind = 'suspended' and running_ns >= recording_end_ns()
      and (select count(distinct out_function) from running where running.pid = observed.pid) < 2
)
select case count(*) when 1 then process || ' is' else printf('%d processes, such as %s, are', count(*), process) end
           || ' suspended since before the recording began'
           || coalesce(', in ' || function, '') || coalesce(', called from ' || nullif(called_from, function), '')
           || case when function like 'erlang:port_command/%' or function like 'prim_inet:send%'
                   then ': the port that it sends to is busy, since the program or peer behind it does not read'
                when idle then ': by erlang:suspend_process/1'
                else ': by erlang:suspend_process/1, or since it sends to a port that is busy' end
           || printf('. Messages in its mailbox: %d', max(mailbox)) as finding,
       0.95 as weight,
       'print REC --events observed' as more
from still group by function, called_from;
