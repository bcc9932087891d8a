-- SPDX-License-Identifier: Apache-2.0
-- Processes are searched for literals again and again, as persistent terms are replaced or erased, or code is purged.
-- At least twice per second, and for a twentieth of the time.
with heard as materialized (
    select fetched_ns as ns, sender_pid is null as begins,
           total(sender_pid is null) over (order by fetched_ns, id) as nth
    from messages where receiver_pid in (select pid from processes where role like 'erts_literal_area_collector%') and fetched_ns is not null
), searches as materialized (
    select nth, min(ns) as ns, max(ns) - min(ns) as took, count(*) - 1 as answers from heard where nth > 0 group by nth
), known as materialized (
    select ns, cast(ns / 1e6 as int) as ms from searches, complete where ns < running_ns
), ran as materialized (
    select known.ns, pid, min(max(known.ns - end_ns, 0)) as ago
    from (select pid, start_ns, end_ns, cast(end_ns / 1e6 as int) as ms from running
          where not dirty and end_ns is not null and cast(end_ns / 1e6 as int) in (select ms from known union select ms - 1 from known union select ms + 1 from known)) r
         join known on r.ms between known.ms - 1 and known.ms + 1
    where start_ns <= known.ns and end_ns >= known.ns - 1e6
    group by known.ns, pid
), votes as materialized (
    select pid, count(*) as n, avg(ago) as ago from ran group by pid having n * 5 >= 3 * (select count(*) from known)
), who as materialized (
    select name from votes join names using (pid) join processes using (pid)
    where names.role not like 'erts_literal_area_collector%' and votes.n * 4 >= runs order by votes.ago limit 1
), purged as materialized (
    select total(received) as n from processes where role like 'erts_code_purger%'
)
select printf('All processes are searched for old literals, %.0f times per second for %s, with %s to erts_literal_area_collector: ',
              count(*) * 1e9 / (messages_ns - from_ns), duration(avg(took)), counted(avg(answers), 'answer'))
           || case when purged.n > 0 then 'code is purged, or persistent terms are replaced or erased'
                   else 'persistent terms are replaced or erased (persistent_term:put/2 or erase/1)' end
           || '. Each process that refers to the old one collects its garbage'
           || coalesce('. ' || (select name from who) || ' ran right before', '') as finding,
       min(0.95, 0.3 + total(took) / (messages_ns - from_ns)) as weight,
       'mailboxes REC' as more
from searches, purged, complete
having count(*) >= 3 and count(*) * 1e9 >= 2 * (messages_ns - from_ns) and total(took) * 20 >= messages_ns - from_ns;
