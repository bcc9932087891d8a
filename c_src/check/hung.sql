-- SPDX-License-Identifier: Apache-2.0
-- Processes that wait for the answer of a server since before the recording began, with what that server does.
-- Seen in a call when tracing began; no other request and no other wait until the end, or until the budget left out runs or messages half a second later or more.
with waiting as materialized (
    select observed.* from observed, complete
    where kind = 'waits' and waits_for_pid is not null
      and (min(running_ns, messages_ns) >= recording_end_ns() or min(running_ns, messages_ns) - time_ns >= 5e8)
), moved as materialized (
    select waiting.pid from waiting join running on running.pid = waiting.pid
    where running.end_ns > waiting.time_ns
    group by waiting.pid
    having count(*) >= 3 or max(running.exited) or max(running.out_function <> waiting.function)
    union select client_pid from requests
), hung as materialized (
    select waits_for as server, waits_for_pid as server_pid, count(*) as n, min(process) as client,
           called_from
    from waiting where pid not in (select pid from moved) group by waits_for_pid
), last as materialized (
    select pid, out_function as function, max(start_ns) as start_ns
    from running where pid in (select server_pid from hung) and out_function is not null group by pid
), ran as materialized (
    select pid, total(duration_ns) / recorded_ns() as share
    from running where pid in (select server_pid from hung) group by pid
)
select case n when 1 then client || ' waits'
              else printf('%s%d processes, such as %s, wait', case when (select count(*) >= 500 from observed) then 'At least ' else '' end,
                          n, client) end
           || printf(' for the answer of %s since before the recording began', server)
           || case when called_from is null then '' else printf(' (called from %s)', called_from) end
           || coalesce((select case kind when 'suspended' then printf('. %s is suspended', server)
                                         else printf('. %s itself waits', server) end
                               || coalesce(' in ' || function, '') || coalesce(', called from ' || nullif(observed.called_from, function), '')
                               || coalesce(', for the answer of ' || waits_for, '')
                        from observed where pid = server_pid and kind in ('suspended', 'waits')),
                       (select case when share > 0.1 then printf('. %s runs for %.0f %% of the time', server, 100 * share)
                                                          || coalesce(', at last in ' || last.function, '')
                                    when exists (select 1 from places where places.pid = last.pid and places.function = last.function and idle)
                                        then printf('. %s has no reply for them yet: it has taken the requests and waits for other messages, '
                                                    || 'as a pool does whose resources are all in use', server)
                                    else printf('. %s waits in %s', server, last.function) end
                        from last join ran on ran.pid = last.pid where last.pid = server_pid), '') as finding,
       0.95 as weight,
       'print REC --events observed' as more
from hung;
