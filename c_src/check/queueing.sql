-- SPDX-License-Identifier: Apache-2.0
-- A server whose requests spend most of their time in its queue, and where it waits for what.
-- At least ten requests of 1 ms or more, of which half or more was queueing, and in all a twentieth of the recording.
with queues as materialized (
    select server, server_pid, count(*) filter (where slow) as n, total(kind = 'io' and slow) as io, max(ahead) as ahead,
           avg(queued_ns) filter (where slow) as queued_ns, avg(handling_ns) as handling_ns,
           total(queued_ns) filter (where slow) / total(duration_ns) filter (where slow) as part
    from (select *, duration_ns >= 1e6 as slow from requests where kind in ('call', 'io') and queued_ns is not null)
    group by server_pid
    having n >= 10 and part >= 0.5 and max(ahead) >= 2 and total(queued_ns) filter (where slow) * 20 >= recorded_ns()
)
select printf('Requests to %s queue: %d requests%s waited %s on average behind up to %d others, %.0f %% of their duration. '
              || 'It handles one in %s', coalesce(names.name, server), n,
              case when io = n then ' for I/O (io:format and the like: it is the group leader or the device)' else '' end,
              duration(queued_ns), ahead, 100.0 * part, duration(handling_ns))
           || coalesce(', and ' || longest.words, '') as finding,
       min(0.9, 0.3 + part / 2) as weight,
       'requests REC --tree' as more
from queues
left join longest on longest.pid = server_pid and longest.ns * 5 >= recorded_ns()
left join names on names.pid = server_pid;
