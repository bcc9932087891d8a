-- SPDX-License-Identifier: Apache-2.0
-- Tables that rules share, made once before the first rule runs. Not a rule.

-- What rules read, so that one analysis of the recording makes the rows of all of these.
select 1 from running, waits, messages, requests, processes, collections, counters, system_monitor, losses, shed, observed limit 0;

-- From when until when all messages and runs are in the recording: the budget may have left out later ones.
create temp table complete as
select recording_end_ns() - recorded_ns() as from_ns,
       coalesce(min(shed.from_ns) filter (where events = 'messages'), recording_end_ns()) as messages_ns,
       coalesce(min(shed.from_ns) filter (where events = 'running'), recording_end_ns()) as running_ns
from shed;

-- waits, for rules: stock runtimes end a run also where the process commands a port, and then name the BIF that
-- was called last. No run ends in one that returns at once: such a function is not known.
create temp table places as
select pid, case when function in ('erlang:put/2', 'erlang:get/0', 'erlang:get/1', 'erlang:erase/0', 'erlang:erase/1',
                                   'erlang:make_ref/0', 'erlang:monotonic_time/0', 'erlang:monotonic_time/1',
                                   'erlang:system_time/0', 'erlang:system_time/1', 'erlang:timestamp/0', 'erlang:now/0',
                                   'erlang:unique_integer/0', 'erlang:unique_integer/1', 'os:timestamp/0')
                 then null else function end as function,
       runs, running_ns, dirty_ns, waits, waiting_ns, idle
from waits;

-- Names of processes. Those that were started with a function of OTP that runs any other one are named with
-- the function in which they were most of the time. kind is the same for role.
create temp table names (pid primary key, process, role, name, kind);
insert or ignore into names
with general as materialized (
    select pid, process like 'erlang:apply/_' or process like 'erlang:apply/_ under %' or process like 'proc_lib:init_p/_%' as by_name,
           role like 'erlang:apply/_' or role like 'erlang:apply/_ under %' or role like 'proc_lib:init_p/_%' as by_role
    from processes
), most as materialized (
    select pid, function, max(running_ns + dirty_ns + waiting_ns) from places
    where function is not null and pid in (select pid from general where by_name or by_role) group by pid
)
select pid, process, role, case when by_name and function is not null then process || ' in ' || function else process end,
       case when by_role and function is not null then role || ' in ' || function else role end
from processes join general using (pid) left join most using (pid);

-- The two processes that ran most, in one row.
create temp table busiest as
select group_concat(name, ' and ') as names
from (select name from processes join names using (pid) where running_ns > 0 group by name order by max(running_ns) desc limit 2);

-- Sums over the requests to a server, and whether it has a queue or is slow: the rules queueing and slow_server say when.
create temp table servers as
with known as (
    select *, queued_ns is not null as placed, queued_ns is not null and duration_ns >= 1e6 as waited, handling_ns >= 5e7 as long
    from requests where kind in ('call', 'io')
), sums as (
    select server_pid, server, min(sent_ns) filter (where ended = 'open') as open_ns,
           max(ahead) filter (where placed) as ahead, avg(handling_ns) filter (where placed) as handling_ns,
           count(*) filter (where waited) as waited, total(kind = 'io' and waited) as waited_io,
           avg(queued_ns) filter (where waited) as queued_ns,
           total(queued_ns) filter (where waited) / total(duration_ns) filter (where waited) as queued_part,
           count(*) filter (where long) as long, total(kind = 'io' and long) as long_io, avg(handling_ns) filter (where long) as long_ns,
           coalesce(total(handling_ns) filter (where long) / total(duration_ns) filter (where long), 1.0) as long_part
    from known group by server_pid
)
select *, coalesce(waited >= 10 and queued_part >= 0.5 and ahead >= 2 and waited * queued_ns * 20 >= recorded_ns(), false) as queues,
       coalesce(long >= 3 and long_part >= 0.5 and long * long_ns * 5 >= recorded_ns(), false) as slow
from sums;

-- What ended the waits of servers that rules may name, because they have a queue, are slow, or did not reply: for each
-- function the sender of the first message after the wait, as words that follow "waits". Many such waits are enough.
create temp table woken as
with slow_servers as materialized (
    select server_pid from servers where queues or slow or open_ns <= recording_end_ns() - 5e8
), steps as materialized (
    select pid, event, thread, coalesce(peer, case when message = 'timeout' then message else match_result end) as sender,
           lag(event) over w as before, lag(time_ns) over w as in_ns, lag(thread) over w as in_thread, lag(event, 2) over w as out_event,
           lag(time_ns, 2) over w as out_ns, lag(thread, 2) over w as out_thread, lag(function, 2) over w as function
    from (select events.* from (select 1 from slow_servers limit 1) cross join events -- without any, it is not read
          where event in ('in', 'out', 'receive') and pid in (select server_pid from slow_servers) limit 300000)
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

-- Where a server is longest without running on a normal scheduler, other than idle, as words.
create temp table longest as
with sums as materialized (
    select pid, function, waiting_ns + dirty_ns as ns, dirty_ns > 0 as dirty,
           row_number() over (partition by pid order by waiting_ns + dirty_ns desc) as nth
    from places where not idle and function is not null and pid in (select server_pid from servers)
)
select sums.pid, sums.ns,
       case when dirty then printf('spends %.0f %% of the time in %s, on a dirty scheduler (a NIF, or a large garbage collection) or waiting for one', 100.0 * sums.ns / recorded_ns(), function)
            else printf('waits in %s for %.0f %% of the time', function, 100.0 * sums.ns / recorded_ns()) || coalesce(', ' || by, '') end as words
from sums left join woken using (pid, function) where nth = 1;
