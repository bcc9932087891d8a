-- SPDX-License-Identifier: Apache-2.0
-- Processes of one role that use most of the processor time, the functions in which they run, and what they send.
-- At least half of the recorded running time, and a quarter of a processor by the utilization of the schedulers.
with used as materialized (
    select avg(value) filter (where counter = 'schedulers_utilization') / 1e6 as busy, max(scheduler) as schedulers from counters
), ran as materialized (
    select kind, function, total(running_ns) as ns from places join names using (pid)
    where role not like 'erts_trace_cleaner:%' -- ends the session of kymo
          and (select busy * schedulers from used) >= 0.25 -- otherwise nothing is found
    group by kind, function
), kinds as materialized (
    select kind, total(ns) as ns, total(ns) / (select total(ns) from ran) as part from ran group by kind
), found as materialized (
    -- Not more than it ran: not all processes need be recorded.
    select kind, ns, part, busy, schedulers, min(part * busy * schedulers, ns / (running_ns - from_ns)) as processors from kinds, used, complete
    where part >= 0.5 and part * busy * schedulers >= 0.25 and ns >= 0.25 * (running_ns - from_ns)
), those as materialized (
    select kind, pid, name, running_ns, sent from found join names using (kind) join processes using (pid)
), tops as materialized (
    select kind, function, ns, row_number() over (partition by kind order by ns desc) as nth from ran
    where kind in (select kind from found) and function is not null
), modules as materialized (
    select kind, substr(function, 1, instr(function, ':') - 1) as module, total(ns) as ns,
           row_number() over (partition by kind order by total(ns) desc) as nth
    from tops group by kind, module
), sends as materialized (
    select those.kind, count(*) as n, count(distinct receiver_pid) as receivers
    from messages join those on pid = sender_pid where sent_ns is not null group by those.kind
)
select printf('%s uses %.1f of %d processors; its runs end mostly in %s (of its running time)',
              (select case count(*) when 1 then max(name)
                          else printf('%s (%d processes', found.kind, count(*))
                               || coalesce(', most of it ' || nullif((select name from those k where k.kind = found.kind
                                                                      order by running_ns desc limit 1), found.kind), '') || ')' end
               from those where those.kind = found.kind),
              processors, schedulers,
              coalesce((select group_concat(printf('%s %.0f %%', function, 100.0 * tops.ns / found.ns), ', ')
                        from tops where tops.kind = found.kind and (nth = 1 or nth <= 3 and tops.ns * 20 >= found.ns)
                                        and (select total(t.ns) from tops t where t.kind = found.kind) * 2 >= found.ns),
                       'functions that are not known'))
           || case when (select total(tops.ns) from tops where tops.kind = found.kind and nth <= 3) * 4 < 3 * found.ns
                   then coalesce((select '. By module: ' || group_concat(printf('%s %.0f %%', module, 100.0 * modules.ns / found.ns), ', ')
                         from modules where modules.kind = found.kind and nth <= 4 and modules.ns * 20 >= found.ns), '') else '' end
           || coalesce((select printf('. It sends %.0f messages per second to %s', n * 1e9 / (messages_ns - from_ns), counted(receivers, 'process'))
                        from sends, complete where sends.kind = found.kind and n * 1e9 >= 2000.0 * (messages_ns - from_ns)), '') as finding,
       min(0.95, max(part * busy, 0.6 * min(1.0, processors))) as weight,
       'stats REC --by role' as more
from found;
