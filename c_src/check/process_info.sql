-- SPDX-License-Identifier: Apache-2.0
-- A process that asks many others about themselves, as process_info/2 does, so that each of them has to answer.
-- At least 1,000 answers per second, of 100 processes or more.
with askers as materialized (
    select pid, total(runs) as runs, total(waiting_ns) as ns from places where function like 'erts_internal:await_result/_'
    group by pid having total(runs) >= 500
), answers as materialized (
    select pid, count(*) as n, count(distinct sender_pid) as processes
    from askers join messages on receiver_pid = pid where messages.kind = 'reply' and fetched_ns is not null group by pid
)
select printf('%s asks %d processes about themselves, by process_info/2 or the like: %.0f answers per second. Each has to run for it',
              name, answers.processes, answers.n * 1e9 / least) as finding,
       min(0.9, 0.3 + (ns + coalesce(running_ns, 0)) / least) as weight,
       'mailboxes REC' as more
from answers join askers using (pid) join names using (pid) join processes using (pid),
     (select min(messages_ns, running_ns) - from_ns as least from complete)
where answers.n * 1e9 >= 1000 * least and answers.processes >= 100;
