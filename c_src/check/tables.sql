-- SPDX-License-Identifier: Apache-2.0
-- Tables that rules share, made once before the first rule runs. Not a rule.

-- From when until when all messages and runs are in the recording: the budget may have left out later ones.
create temp table complete as
select recording_end_ns() - recorded_ns() as from_ns,
       coalesce(min(shed.from_ns) filter (where events = 'messages'), recording_end_ns()) as messages_ns,
       coalesce(min(shed.from_ns) filter (where events = 'running'), recording_end_ns()) as running_ns
from shed;

-- The functions in which a process stopped running, and how long it waited in each of them. A wait ends
-- where the budget began to leave out runs. A run on a dirty scheduler, and the wait for that scheduler, is in the
-- function that is called there; after it, the process waits for no message. Stock runtimes end a run also where
-- the process commands a port, and then name the BIF that was called last: if that one returns at once, it is NULL.
-- A behaviour of OTP is idle where it waits for the next message.
create temp table places as
with shed_runs as materialized (
    select from_ns, coalesce(to_ns, recording_end_ns()) as to_ns from shed where events = 'running'
), outs as (
    select pid, case when dirty then in_function
                     when out_reason = 'port'
                          or out_function in ('erlang:put/2', 'erlang:get/0', 'erlang:get/1', 'erlang:erase/0', 'erlang:erase/1',
                                              'erlang:make_ref/0', 'erlang:monotonic_time/0', 'erlang:monotonic_time/1',
                                              'erlang:system_time/0', 'erlang:system_time/1', 'erlang:timestamp/0', 'erlang:now/0',
                                              'erlang:unique_integer/0', 'erlang:unique_integer/1', 'os:timestamp/0')
                     then null else out_function end as function,
           duration_ns, dirty,
           case when dirty or exited or end_ns is null then 0
                else min(lead(start_ns, 1, recording_end_ns()) over (partition by pid order by start_ns),
                         coalesce((select min(max(from_ns, end_ns)) from shed_runs where to_ns >= end_ns), recording_end_ns())) - end_ns
           end as waiting_ns
    from running
)
select pid, function, count(*) as runs, total(duration_ns) filter (where not dirty) as running_ns,
       total(duration_ns) filter (where dirty) as dirty_ns, total(max(waiting_ns, 0)) as waiting_ns,
       coalesce(function like 'gen_server:loop/%' or function like 'gen_statem:loop_receive/%'
                or function like 'gen_event:fetch_msg/%', false) as idle
from outs group by pid, function;

-- Names of processes. Those that were started with a function of OTP that runs any other one are named with
-- the function in which they were most of the time. kind is the same for role.
create temp table names (pid primary key, process, role, name, kind);
insert or ignore into names
with most as materialized (
    select pid, function, max(running_ns + dirty_ns + waiting_ns) from places where function is not null group by pid
)
select pid, process, role,
       case when function is not null and (process like 'erlang:apply/_' or process like 'erlang:apply/_ under %'
                                           or process like 'proc_lib:init_p/_%')
            then process || ' in ' || function else process end,
       case when function is not null and (role like 'erlang:apply/_' or role like 'erlang:apply/_ under %'
                                           or role like 'proc_lib:init_p/_%')
            then role || ' in ' || function else role end
from processes left join most using (pid);

-- The two processes that ran most, in one row.
create temp table busiest as
select group_concat(name, ' and ') as names
from (select name from processes join names using (pid) where running_ns > 0 order by running_ns desc limit 2);

-- What ended the waits of servers that took a millisecond or more for a request, or did not reply: for each
-- function the sender of the first message after the wait, as words that follow "waits".
create temp table woken as
with steps as materialized (
    select pid, event, thread, coalesce(peer, case when message = 'timeout' then message else match_result end) as sender,
           lag(event) over w as before, lag(time_ns) over w as in_ns, lag(thread) over w as in_thread, lag(event, 2) over w as out_event,
           lag(time_ns, 2) over w as out_ns, lag(thread, 2) over w as out_thread, lag(function, 2) over w as function
    from events
    where event in ('in', 'out', 'receive')
      and pid in (select server_pid from requests where kind in ('call', 'io') and (ended = 'open' or duration_ns >= 1e6))
    window w as (partition by pid order by id)
), sums as materialized (
    select pid, function, sender, total(in_ns - out_ns) as ns,
           row_number() over (partition by pid, function order by total(in_ns - out_ns) desc) as nth
    from steps where event = 'receive' and before = 'in' and out_event = 'out' and in_thread like 's%' and out_thread like 's%' group by pid, function, sender
)
select pid, function, ns,
       case when sender = 'undefined'
            then 'for messages that no process of the node sent: those of a port (an external program, a file or a socket), of a timer '
                 || 'or of the runtime'
            when sender = 'timeout' then 'until a time is over'
            when sender like '#Port<%' then 'for messages of the port ' || sender
            else 'for messages of ' || sender end as by
from sums where nth = 1;

-- Where a process is longest without running on a normal scheduler, other than idle, as words.
create temp table longest as
with sums as materialized (
    select pid, function, waiting_ns + dirty_ns as ns, dirty_ns > 0 as dirty,
           row_number() over (partition by pid order by waiting_ns + dirty_ns desc) as nth
    from places where not idle and function is not null
)
select sums.pid, sums.ns,
       case when dirty then printf('spends %.0f %% of the time in %s, on a dirty scheduler or waiting for one', 100.0 * sums.ns / recorded_ns(), function)
            else printf('waits in %s for %.0f %% of the time', function, 100.0 * sums.ns / recorded_ns()) || coalesce(', ' || by, '') end as words
from sums left join woken using (pid, function) where nth = 1;

-- Beginnings and ends of collections, with the words in fragments outside of the heap, which are terms that
-- were copied to the process, and of the binaries to which the process refers.
create temp table heaps as
select pid, time_ns, event like '%end' as ended, details ->> '$.mbuf_size' as fragments,
       (details ->> '$.bin_vheap_size') + (details ->> '$.bin_old_vheap_size') as binaries,
       lead(details ->> '$.mbuf_size') over (partition by pid order by id) as fragments_next
from events where event in ('gc_minor_start', 'gc_major_start', 'gc_minor_end', 'gc_major_end');
