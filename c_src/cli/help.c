/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kymo_cli.h"

#define FILTERS \
    "Which events:\n" \
    "      --from TIME        not before: 1.5s, 200ms, 1m30s after the start of the\n" \
    "                         recording; -2s before its last event; or a date in\n" \
    "                         UTC, 2024-05-01T12:00:00.5Z\n" \
    "      --to TIME          not after\n" \
    "      --pid PROCESS      of this process or port: '<0.1.2>', '#Port<0.3>', or a\n" \
    "                         registered name or label; may be repeated\n" \
    "      --tag TAG,...      of these kinds: call, return_to, send, receive, spawn, ...\n" \
    "                         or calls, messages, procs, ports, running, gc\n" \
    "      --module MODULE    of functions in this module; may be repeated\n"

#define ALL \
    "      --all              also what is older than the recording is complete: of\n" \
    "                         some threads only, marked as incomplete\n"

#define COMMON \
    "  -q, --quiet            no progress, no summary, no warnings\n" \
    "      --strict           exit with 1 when events were lost, damage was found, or\n" \
    "                         another tool took its tracing away\n" \
    "  -h, --help             this text\n"

static const char general[] =
    "Usage: kymo COMMAND [OPTION]... RECORDING\n"
    "\n"
    "Reads recordings of the flight recorder for the BEAM: of a node that runs, of\n"
    "one that died, or a snapshot. RECORDING is the folder that the recorder wrote.\n"
    "\n"
    "  kymo info RECORDING                    what it holds, and what was lost\n"
    "  kymo print RECORDING                   the events, one line each\n"
    "  kymo export perfetto RECORDING -o OUT  a timeline for ui.perfetto.dev\n"
    "  kymo export ctf RECORDING -o DIR       for babeltrace2, Trace Compass\n"
    "  kymo export folded RECORDING -o OUT    stacks for flame graphs, speedscope\n"
    "  kymo export dbg RECORDING -o OUT       for dbg:trace_client/2\n"
    "  kymo help [COMMAND]                    the options of a command\n"
    "  kymo --version\n"
    "\n"
    "Exit status: 0 done; 1 with --strict: something is missing; 2 wrong usage;\n"
    "3 the recording can't be read; 4 the output can't be written; 5 no memory.\n"
    "See kymo(1).\n";

static const char info[] = "Usage: kymo info [OPTION]... RECORDING\n"
                           "\n"
                           "Shows the state of the recording and how it ended, the node, from when on it is\n"
                           "complete, the span of time,\n"
                           "events by thread, tag, process and function, what was lost and why, damage,\n"
                           "limits, files and the use of the dictionary.\n"
                           "\n"
                           "      --json             the same as one JSON object\n"
                           "  -n, --top N            processes and functions to list (10)\n" COMMON;

static const char print[] = "Usage: kymo print [OPTION]... RECORDING\n"
                            "\n"
                            "Prints one line per event: TIME THREAD PROCESS EVENT and what belongs to it.\n"
                            "TIME is in seconds since the start of the recording.\n"
                            "\n"
                            "      --wall             TIME as a date in UTC\n"
                            "      --erlang           TIME as erlang:monotonic_time(nanosecond)\n"
                            "  -n, --limit N          stop after N lines\n" ALL COMMON "\n" FILTERS;

static const char export[] =
    "Usage: kymo export FORMAT [OPTION]... RECORDING -o OUT\n"
    "\n"
    "  perfetto               a track per process, scheduler tracks, message arrows;\n"
    "                         open it in ui.perfetto.dev\n"
    "  ctf                    OUT is a new folder; read it with babeltrace2\n"
    "  folded                 'process;function;function TIME', own time in\n"
    "                         nanoseconds, for flamegraph.pl or speedscope\n"
    "  dbg                    the trace messages, for dbg:trace_client(file, OUT, F)\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --wall             folded: by wall clock, not by time scheduled in\n" ALL COMMON "\n" FILTERS;

const char *cli_help(const char *command)
{
    if (command == NULL)
        return general;
    if (strcmp(command, "info") == 0)
        return info;
    if (strcmp(command, "print") == 0)
        return print;
    if (strcmp(command, "export") == 0)
        return export;
    return NULL;
}
