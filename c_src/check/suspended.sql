-- SPDX-License-Identifier: Apache-2.0
-- Processes that are suspended.
-- Suspended when tracing began, and scheduled out in one function only (where it handles signals).
select printf('%s is suspended since before the recording began', process)
           || coalesce(', in ' || function, '') || coalesce(', called from ' || called_from, '')
           || case when function like 'erlang:port_command/%' or function like 'prim_inet:send%'
                   then ': the port that it sends to is busy, since the program or peer behind it does not read'
                when function like 'gen_server:loop/%' or function like 'gen_statem:loop_receive/%'
                   then ': by erlang:suspend_process/1'
                else ': by erlang:suspend_process/1, or since it sends to a port that is busy' end
           || printf('. Messages in its mailbox: %d', mailbox) as finding,
       0.95 as weight,
       'print REC --events observed' as more
from observed
where kind = 'suspended'
  and not exists (select 1 from shed where events = 'running')
  and (select count(distinct out_function) from running where running.pid = observed.pid) < 2;
