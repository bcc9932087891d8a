-- SPDX-License-Identifier: Apache-2.0
-- New atoms in the whole recording: atoms are never freed, and the node ends when its table is full.
-- At least 50 per second, in the first and in the second half of the recording, and no code was loaded, which brings some.
with samples as materialized (
    select time_ns, value from counters where counter = 'atom_count'
), bounds as materialized (
    select min(time_ns) as first, max(time_ns) as last, (min(time_ns) + max(time_ns)) / 2 as middle from samples
), values_at as materialized (
    select (select value from samples where time_ns = first) as a,
           (select value from samples where time_ns >= middle order by time_ns limit 1) as b,
           (select value from samples where time_ns = last) as c,
           (last - first) / 1e9 as seconds
    from bounds
)
select printf('%d atoms per second are new, and never freed: from %d to %d', (c - a) / seconds, a, c)
           || coalesce('. ' || names || ' ran most in that time', '') as finding,
       0.6 as weight,
       'stats REC --by role' as more
from values_at, busiest
where b - a >= max(20, 25 * seconds) and c - b >= max(20, 25 * seconds)
      and (c - a >= 200 * seconds or (select max(value) - min(value) < 16384 from counters where counter = 'memory_code'));
