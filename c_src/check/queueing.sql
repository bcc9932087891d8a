-- SPDX-License-Identifier: Apache-2.0
-- A server whose requests spend most of their time in its queue.
-- At least ten requests of 1 ms or more, of which half or more was queueing.
select printf('Requests to %s queue: %d requests waited %s on average behind up to %d others, %.0f %% of their duration. '
              || 'It handles one in %s', server, count(*), duration(avg(queued_ns)), max(ahead),
              100.0 * total(queued_ns) / total(duration_ns), duration(avg(handling_ns))) as finding,
       min(0.9, 0.3 + total(queued_ns) * 0.5 / total(duration_ns)) as weight,
       'requests REC --tree' as more
from requests
where kind in ('call', 'io') and duration_ns >= 1e6 and queued_ns is not null
group by server_pid
having count(*) >= 10 and total(queued_ns) * 2 >= total(duration_ns) and max(ahead) >= 2;
