-- SPDX-License-Identifier: Apache-2.0
-- A server whose requests spend most of their time in its queue, and where it waits for what.
-- At least ten requests of 1 ms or more, of which half or more was queueing, and in all a twentieth of the recording.
select printf('Requests to %s queue: %d requests%s waited %s on average behind up to %d others, %.0f %% of their duration. '
              || 'It handles one in %s', coalesce(names.name, server), waited,
              case when waited_io = waited then ' for I/O (io:format and the like: it is the group leader or the device)' else '' end,
              duration(queued_ns), ahead, 100.0 * queued_part, duration(handling_ns))
           || coalesce(', and ' || longest.words, '') as finding,
       min(0.9, 0.3 + queued_part / 2) as weight,
       'requests REC --tree' as more
from servers
left join longest on longest.pid = server_pid and longest.ns * 5 >= recorded_ns()
left join names on names.pid = server_pid
where queues;
