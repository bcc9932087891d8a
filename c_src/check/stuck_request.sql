-- SPDX-License-Identifier: Apache-2.0
-- Requests that had no reply for long, by server, with what the server does.
-- The oldest one has been open for half a second or more.
with open as materialized (
    select server, server_pid, count(*) as n, count(distinct client_pid) as clients, max(client_pid) as client_pid,
           total(kind = 'io') as io, messages_ns - min(sent_ns) as ns, max(fetched_ns) as fetched_ns
    from requests, complete where kind in ('call', 'io') and ended = 'open' and sent_ns < messages_ns group by server_pid
), exchanged as materialized (
    select server_pid, case sender_pid when server_pid then receiver_pid else sender_pid end as other_pid, kind,
           sender_pid = server_pid as from_server, max(sent_ns)
    from open join messages on server_pid in (sender_pid, receiver_pid) group by server_pid, other_pid
), holders as materialized (
    select server_pid, count(*) as n, max(other_pid) as pid from exchanged where from_server and kind = 'reply' group by server_pid
), replies as materialized (
    select server_pid, count(*) as n from open join messages on sender_pid = server_pid where kind in ('reply', 'io_reply') group by server_pid
), last as materialized (
    select pid, out_function as function, max(start_ns), end_ns, hibernated
    from running where pid in (select server_pid from open union select pid from holders) group by pid
), held as materialized (
    select holders.server_pid, printf('. It sent %d replies, and %s received one and sent it nothing since, such as %s',
                                      replies.n, case holders.n when 1 then '1 process has' else holders.n || ' processes have' end,
                                      process) || coalesce(', which waits in ' || last.function, '') as words
    from holders join replies using (server_pid) join names using (pid) left join last on last.pid = holders.pid and last.end_ns is not null
)
select printf('%d %s%s to %s %s no reply, the oldest for %s; %d %s, such as %s', n, case when io = n then 'I/O ' else '' end,
              case n when 1 then 'request' else 'requests' end, coalesce(s.name, server), case n when 1 then 'has' else 'have' end,
              duration(open.ns), clients, case clients when 1 then 'process waits' else 'processes wait' end, c.name)
           || case when last.function is null then ''
                   when end_ns is null then printf('. %s was running when the recording ended', server)
                   when (idle or hibernated) and fetched_ns <= end_ns
                   then printf('. %s is idle in %s: it has taken them without a reply (noreply, or postponed), as a pool does while '
                               || 'all that it lends is in use', server, last.function) || coalesce(held.words, '')
                   else printf('. %s waits in %s', server, last.function) || case when idle or hibernated then '' else coalesce(' ' || by, '') end end as finding,
       min(1.0, 0.4 + 0.6 * open.ns / recorded_ns()) as weight,
       'requests REC' as more
from open
left join last on last.pid = open.server_pid
left join places on places.pid = last.pid and places.function = last.function
left join names s on s.pid = open.server_pid
left join names c on c.pid = open.client_pid
left join held on held.server_pid = open.server_pid
left join woken on woken.pid = open.server_pid and woken.function = last.function
where open.ns >= 5e8;
