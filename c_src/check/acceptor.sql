-- SPDX-License-Identifier: Apache-2.0
-- A process that accepts connections and waits for the data of one, so that others are not accepted.
-- At least two accepted; waits for data for a third of the recording; none of its role waits for connections half of it.
-- A socket that is accepted is first linked to the process that accepts it.
with linked as materialized (
    select peer_pid, pid, event, min(id) from events where event in ('getting_linked', 'link') and peer_pid like '#Port<%' group by peer_pid
), accepted as materialized (
    select pid, count(*) as n from linked where event = 'getting_linked' group by pid
), here as materialized (
    select pid, kind, max(function) filter (where receives) as function, total(waiting_ns) filter (where receives) as receive_ns,
           total(waiting_ns) filter (where not receives) as accept_ns, total(runs) filter (where not receives) as accepts
    from (select *, function like 'prim_inet:recv0/%' or function like 'socket:recv%' as receives from places
          where function like 'prim_inet:recv0/%' or function like 'prim_inet:accept0/%'
                or function like 'socket:recv%' or function like 'socket:accept%') join names using (pid)
    group by pid
)
select printf('%s connections%s, and wait%s for their data %s, in %s: for %s of %s. No other connection is accepted by %s in that time',
              case count(*) when 1 then max(name) || ' accepts' else printf('%d processes of %s accept', count(*), kind) end,
              case when max(n) is null then '' else printf(' (%d in the recording)', total(n)) end,
              case count(*) when 1 then 's' else '' end, case count(*) when 1 then 'itself' else 'themselves' end, function,
              duration(max(receive_ns)), duration(recorded_ns()), case count(*) when 1 then 'it' else 'them' end) as finding,
       min(0.95, 0.3 + 0.65 * max(receive_ns) / recorded_ns()) as weight,
       'why REC --path' as more
from here join names using (pid, kind) left join accepted using (pid)
where receive_ns * 3 >= recorded_ns() and coalesce(n, accepts, 0) >= 2
  and not exists (select 1 from here other where other.kind = here.kind and other.accept_ns * 2 >= recorded_ns())
group by kind;
