-- SPDX-License-Identifier: Apache-2.0
-- Processes that spend much of their running time in garbage collections.
-- A third of it or more, and a tenth of the recording or more.
select printf('%s spends %.0f %% of its running time in garbage collections: %s in %d collections', process,
              100.0 * gc_ns / running_ns, duration(gc_ns), collections) as finding,
       min(0.9, gc_ns * 1.0 / recorded_ns()) as weight,
       'stats REC --by process --sort gc' as more
from processes
where running_ns > 0 and gc_ns * 3 >= running_ns and gc_ns * 10 >= recorded_ns();
