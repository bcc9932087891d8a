-- SPDX-License-Identifier: Apache-2.0
-- Processes that wait in a function of OTP for something that should not take long.
-- The same process waited there for at least a third of the recording, and half a second.
with known(function, what) as materialized (
    values ('prim_inet:send_recv_reply/2', 'until a socket takes what it sends: the peer does not read fast enough'),
           ('prim_inet:send/4', 'until a socket takes what it sends: the peer does not read fast enough'),
           ('prim_inet:recvfrom0/3', 'for a datagram, such as the answer of a name server'),
           ('erpc:call/5', 'for a call on another node'),
           ('rpc:call/5', 'for a call on another node'),
           ('dets:req/2', 'for the process of a dets table'),
           ('disk_log:monitor_request/2', 'for the process of a disk_log'),
           ('mnesia_locker:receive_wlocks/4', 'for a write lock of mnesia'),
           ('mnesia_locker:l_req_rec/2', 'for a lock of mnesia'),
           ('mnesia_tm:rec_all/4', 'for other nodes to commit a transaction of mnesia'),
           ('global:random_sleep/1', 'for a lock of global that others hold'),
           ('supervisor:start_child/2', 'for a supervisor'),
           ('code_server:call/1', 'for the code server'),
           ('file:check_and_call/2', 'for the file server'),
           ('io:execute_request/2', 'for the process that prints'),
           ('io:wait_io_mon_reply/2', 'for the process that prints'),
           ('prim_file:read_nif/2', 'for a file'),
           ('gen:do_call/4', 'for the answer to a call of a server'),
           ('gen:do_call/3', 'for the answer to a call of a server')
), waits as materialized (
    select pid, process, function as out_function, waiting_ns + dirty_ns as ns from places join names using (pid)
    where function in (select function from known) and waiting_ns + dirty_ns >= 5e8
      and (function not like 'gen:do_call/%' or waiting_ns >= 1e7 * waits) -- many short calls are none
), long as materialized (
    select function, what, process, count(*) as n, max(ns) as ns
    from waits join known on out_function = function
    where ns * 3 >= recorded_ns() and ns >= 5e8
      and not (function like 'gen:do_call/%' and pid in (select client_pid from requests where ended = 'open'
                                                             union select pid from observed where waits_for_pid is not null))
    group by function, process
), locks as materialized (
    select group_concat(distinct printf('%s by %s%s', coalesce(lock, 'one'), process,
                                              coalesce(' in ' || function || coalesce(', called from ' || called_from, ''), ''))) as held
    from observed where kind = 'holds_global_lock'
), named as materialized (
    select function, what, ns, total(n) over (partition by function) as waiting,
           row_number() over (partition by function order by ns desc) as nth,
           process || case n when 1 then '' else printf(' (%d processes)', n) end as name,
           count(*) over (partition by function) as names
    from long
)
select group_concat(name, ', ') || case when names > 4 then printf(' and %d more', names - 4) else '' end
           || case waiting when 1 then ' waits ' else ' wait ' end
           || printf('%s, in %s: for %s of %s', what, function, duration(max(ns)), duration(recorded_ns()))
           || coalesce((select '. Held when the recording began or ended: ' || held from locks where function like 'global:%' and held is not null), '') as finding,
       0.9 * max(ns) / recorded_ns() as weight,
       'why REC --path' as more
from named where nth <= 4
group by function;
