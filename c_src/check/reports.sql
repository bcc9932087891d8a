-- SPDX-License-Identifier: Apache-2.0
-- What the runtime's system monitor reported.
-- Any report, but for those about processes of kymo, and a single long run below a second, which a busy machine explains.
select printf('The runtime reported %s %s for %s%s', kind, counted(count(*), 'time'), coalesce(process, 'the node'),
              case when max(port) is not null then ', port ' || max(port) else '' end)
           || case when max(duration_ns) is null then '' else ', up to ' || duration(max(duration_ns)) end as finding,
       case kind when 'busy_dist_port' then 0.8 when 'busy_port' then 0.7 when 'long_gc' then 0.6 else 0.5 end as weight,
       'sql REC "select * from system_monitor"' as more
from system_monitor
where kind not in ('set', 'held', 'too_many') and coalesce(process, '') not like 'kymo\_%' escape '\'
group by kind, pid
having kind <> 'long_schedule' or count(*) > 1 or max(duration_ns) >= 1e9;
