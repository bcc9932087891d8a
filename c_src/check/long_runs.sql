-- SPDX-License-Identifier: Apache-2.0
-- Processes that run for long without a break, in which the scheduler runs nothing else.
-- Runs of 10 ms or more on average, at least five that end in one function and take a tenth of the recording.
with long as materialized (
    select function, count(*) as processes, total(runs) as n, max(running_ns) as most, total(running_ns) as ns, pid
    from places where runs >= 5 and running_ns >= 1e7 * runs and running_ns * 10 >= recorded_ns()
    group by function
), begun as materialized (
    select out_function as function, in_function, row_number() over (partition by out_function order by total(duration_ns) desc) as nth
    from running where not dirty and out_function in (select function from long) and pid in (select pid from long)
    group by out_function, in_function
)
select printf('%s%s for %s on average without a break, %s, from %s to %s: in a function that does not yield, such as a NIF or the '
              || 'sending of a large message, or in large garbage collections. The scheduler runs nothing else then', name,
              case processes when 1 then ' runs' else printf(' and %d more run', processes - 1) end, duration(ns / n), counted(n, 'time'),
              coalesce(in_function, 'an unknown function'), coalesce(long.function, 'an unknown function')) as finding,
       min(0.9, 0.3 + 0.5 * most / recorded_ns()) as weight,
       'sql REC "select * from running where duration_ns > 10e6"' as more
from long join names using (pid) left join begun on begun.function = long.function and nth = 1;
