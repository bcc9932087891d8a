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
    "  kymo print RECORDING                   the events, one line each; calls as a tree\n"
    "  kymo stats RECORDING                   what functions and processes cost\n"
    "  kymo calls RECORDING                   requests between processes, slowest first\n"
    "  kymo mailboxes RECORDING               who sends to whom, and how long it waits\n"
    "  kymo why RECORDING                     what made one request or call slow\n"
    "  kymo diff RECORDING RECORDING          what became slower or more frequent\n"
    "  kymo sql RECORDING SQL                 any other question, over tables\n"
    "  kymo report RECORDING -o OUT.html      all of that as one page for a browser\n"
    "  kymo attach NODE -o DIR                record a running node\n"
    "  kymo watch RECORDING --trigger T       print what exceeds a limit, as it happens\n"
    "  kymo export perfetto RECORDING -o OUT  a timeline for ui.perfetto.dev\n"
    "  kymo export ctf RECORDING -o DIR       for babeltrace2, Trace Compass\n"
    "  kymo export folded RECORDING -o OUT    stacks for flame graphs, speedscope\n"
    "  kymo export speedscope RECORDING -o OUT  the same for speedscope, by role\n"
    "  kymo export dbg RECORDING -o OUT       for dbg:trace_client/2\n"
    "  kymo export ndjson RECORDING -o DIR    tables for ClickHouse, DuckDB, BigQuery\n"
    "  kymo export otlp RECORDING... -o OUT   requests as spans, for OpenTelemetry\n"
    "  kymo help [COMMAND]                    the options of a command\n"
    "  kymo --version\n"
    "\n"
    "Exit status: 0 done; 1 with --strict: something is missing, an error in SQL, or a\n"
    "collector has not taken everything; 2 wrong usage; 3 the recording can't be read;\n"
    "4 the output can't be written; 5 no memory; 6 a node can't be reached or recorded.\n"
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

static const char print[] =
    "Usage: kymo print [OPTION]... RECORDING\n"
    "\n"
    "Prints one line per event: TIME THREAD PROCESS EVENT and what belongs to it.\n"
    "TIME is in seconds since the start of the recording.\n"
    "\n"
    "      --wall             TIME as a date in UTC\n"
    "      --erlang           TIME as erlang:monotonic_time(nanosecond)\n"
    "      --json             one JSON object per line instead\n"
    "  -n, --limit N          stop after N lines\n"
    "  -f, --follow           go on with what is being recorded, until the recording\n"
    "                         ends or Ctrl-C\n" ALL COMMON "\n"
    "With --tree: calls with how long they took, below their callers. Takes --json,\n"
    "-n, --from, --to, --pid, --module, --function and\n"
    "      --slower TIME      only calls that took at least 10ms, 1.5s, ...\n"
    "\n" FILTERS;

#define ANALYSIS \
    "      --json             the same numbers as one JSON object; times in nanoseconds\n" \
    "      --from TIME        what ends before TIME does not count; see kymo help print\n" \
    "      --to TIME          nor what begins after it\n" \
    "      --pid PROCESS      of this process or port; may be repeated\n"

#define FUNCTIONS \
    "      --module MODULE    of functions in this module; may be repeated\n" \
    "      --function F       lists:map/2, lists:map, Enum.map, my_*; may be repeated\n"

static const char stats[] =
    "Usage: kymo stats [OPTION]... RECORDING\n"
    "\n"
    "What functions cost: how often they were called, total and own time, the part of\n"
    "the total that the process was scheduled in, the median, 99 % and the longest of\n"
    "the calls, and garbage collections in them. A - is not known.\n"
    "\n"
    "      --by WHAT          function, module, process or role (what processes have\n"
    "                         in common: a name, or the function that they run)\n"
    "      --sort COLUMN      self, total, running, calls, p50, p99, max or gc; of\n"
    "                         processes running, waiting, max, gc, calls, sent, received\n"
    "  -n, --top N            how many rows (20)\n" ANALYSIS FUNCTIONS COMMON;

static const char calls[] =
    "Usage: kymo calls [OPTION]... RECORDING\n"
    "\n"
    "Requests between processes: gen_server, gen_statem and gen_event calls, the io\n"
    "protocol, tasks. By server, and the slowest ones: how long each was queued before\n"
    "the server began with it, how long that took, and how long the reply was on its\n"
    "way. ~ marks what follows from the order of replies, not from the callbacks.\n"
    "\n"
    "      --tree             below each of the slowest the requests that its server\n"
    "                         made to handle it: who blocks whom\n"
    "      --casts            casts too\n"
    "  -n, --top N            how many servers and requests (10)\n" ANALYSIS FUNCTIONS COMMON;

static const char mailboxes[] =
    "Usage: kymo mailboxes [OPTION]... RECORDING\n"
    "\n"
    "Messages by receiver: how many, from whom, and how long they waited until the\n"
    "process moved them into its mailbox (and, for requests, until it handled them).\n"
    "\n"
    "      --by WHAT          process or role\n"
    "      --sort COLUMN      received or wait\n"
    "  -n, --top N            how many rows (20)\n" ANALYSIS COMMON;

static const char why[] =
    "Usage: kymo why [OPTION]... RECORDING\n"
    "\n"
    "What made the slowest request, or the slowest call of a function, slow: its\n"
    "critical path across processes. The parts add up to the time that it took.\n"
    "\n"
    "      --at TIME          what was going on then\n"
    "      --path             also the path itself, in order of time\n"
    "      --casts            casts too, from their sending until they were handled\n"
    "  -n, --top N            explain the N slowest (1), at most 1000\n" ANALYSIS FUNCTIONS COMMON;

static const char diff[] =
    "Usage: kymo diff [OPTION]... A B\n"
    "\n"
    "What functions of recording B cost more or less than in recording A: own time per\n"
    "second of recording, the mean of a call, calls per second. slower and faster are\n"
    "beyond the noise: by more than 3 standard errors of the means.\n"
    "\n"
    "  -n, --top N            how many rows (20)\n" ANALYSIS FUNCTIONS COMMON;

static const char sql[] =
    "Usage: kymo sql [OPTION]... RECORDING SQL\n"
    "       kymo sql --tables\n"
    "\n"
    "Runs statements of SQL (SQLite's) over the recording as tables: events, spans,\n"
    "messages, requests, processes, collections, running, functions, losses. SQL is one\n"
    "argument, or - for standard input. NULL is what is not known. Times are integers\n"
    "in nanoseconds since the start of the recording. The recording is only read;\n"
    "temporary tables are in memory.\n"
    "\n"
    "      --json             one JSON object per row and line\n"
    "      --csv              comma-separated values\n"
    "      --tables           the tables and their columns\n" COMMON "\n"
    "The same tables for other programs with SQLite: load the extension\n"
    "kymo_sqlite.so, then select kymo_open('RECORDING').\n";

static const char report[] =
    "Usage: kymo report [OPTION]... RECORDING -o OUT.html\n"
    "\n"
    "Writes one HTML file that needs neither kymo nor a network: what was slow and why, a\n"
    "flame graph, a timeline, latencies, mailboxes, collections, schedulers, losses.\n"
    "The numbers are those of stats, calls, mailboxes and why.\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --from TIME        what ends before TIME does not count; see kymo help print\n"
    "      --to TIME          nor what begins after it\n" COMMON;

static const char export[] =
    "Usage: kymo export FORMAT [OPTION]... RECORDING -o OUT\n"
    "\n"
    "  perfetto               a track per process, scheduler tracks, message arrows;\n"
    "                         open it in ui.perfetto.dev\n"
    "  ctf                    OUT is a new folder; read it with babeltrace2\n"
    "  folded                 'process;function;function TIME', own time in\n"
    "                         nanoseconds, for flamegraph.pl or speedscope\n"
    "  speedscope             the same stacks for speedscope, a profile for each role\n"
    "  dbg                    the trace messages, for dbg:trace_client(file, OUT, F)\n"
    "  ndjson                 OUT is a new folder; the tables of kymo sql, a file of JSON\n"
    "                         lines for each; takes --from and --to only\n"
    "  otlp                   requests, their parts and causes as spans of\n"
    "                         OpenTelemetry; takes several recordings\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --wall             folded, speedscope: by wall clock, not by time scheduled in\n"
    "      --endpoint URL     otlp: post to this collector, http://localhost:4318,\n"
    "                         instead of writing a file\n"
    "      --header H         with it: 'Name: value'; may be repeated\n"
    "      --cacert FILE      with it: the certificates to trust, for https\n" ALL COMMON "\n" FILTERS;

static const char attach[] =
    "Usage: kymo attach [OPTION]... NODE... -o DIR\n"
    "       kymo attach --keep [OPTION]... NODE...\n"
    "       kymo attach --snapshot NODE... -o DIR\n"
    "       kymo attach --detach NODE... [-o DIR]\n"
    "       kymo attach --print [OPTION]... -o DIR\n"
    "       kymo attach --list\n"
    "       kymo attach --list-recorders NODE...\n"
    "\n"
    "Records a running node of OTP 25 or later that has no kymo: connects to it, puts kymo\n"
    "there, records, fetches the recording into the new folder DIR, and leaves the node as\n"
    "it was, also when it is interrupted, killed or loses the connection. NODE is\n"
    "name@host, or the name of a node of this host. Of several nodes each has a folder in\n"
    "DIR. Ctrl-C ends the recording and fetches it.\n"
    "\n"
    "      --for TIME         end the recording after 10s, 5m, ...\n"
    "      --functions F      calls of these functions, 'lists:_/_', and when they return;\n"
    "                         may be repeated\n"
    "      --events EVENT,... messages, procs, ports, running, garbage_collection, ...;\n"
    "                         calls: not when they return (without functions and events:\n"
    "                         messages, running, procs and garbage_collection)\n"
    "      --process NAME     of this registered process only; may be repeated\n"
    "      --policy POLICY    overwrite: keep the newest events; discard: keep all\n"
    "      --memory BYTES     of the recorder in the node (48 MiB)\n"
    "      --calls arguments  also the arguments of calls\n"
    "      --messages WHAT    none, size (the default) or contents\n"
    "      --keep             leave the recorder in the node and return\n"
    "      --snapshot         fetch what a recorder holds that was left\n"
    "      --detach           end it, fetch its recording with -o, and clean up\n"
    "      --print            print an Erlang expression that records into DIR, for a\n"
    "                         shell of a node that can read this installation\n"
    "      --list             the nodes of this machine, and where their cookies are\n"
    "      --list-recorders   the recorders of nodes, whoever started them\n"
    "  -o, --output DIR       the folder for the recording; new or empty\n"
    "\n"
    "      --cookie-file FILE holds the cookie; otherwise that of the node's command line\n"
    "                         or home directory is taken if the node runs here, or yours\n"
    "      --cookie COOKIE    the cookie; other users can see it in the process list\n"
    "      --erl ERL          the Erlang to use (erl)\n"
    "      --port PORT        the port that the node listens on, without epmd\n"
    "      --pid PID          in place of NODE: the node that runs as this process, also\n"
    "                         in a container of this machine\n"
    "      --proto-dist NAME  the distribution protocol, inet_tls or inet6_tcp\n"
    "      --ssl-dist-optfile FILE  options of inet_tls, as erl takes them\n"
    "      --node-dir DIR     a folder of the node to try first; may be repeated\n"
    "  -q, --quiet            errors only\n"
    "  -h, --help             this text\n";

static const char watch[] =
    "Usage: kymo watch [OPTION]... --trigger TRIGGER... RECORDING\n"
    "\n"
    "Follows a recording until it ends or Ctrl-C, and prints a line of JSON each time that\n"
    "a trigger fires. Calls, requests and running processes fire as soon as they exceed\n"
    "TIME (50ms, 1.5s, ...), once each; \"open\" says that it was not over yet. Without the\n"
    "events of procs they fire at their end.\n"
    "\n"
    "      --trigger call,FUNCTIONS,TIME   a call took longer; its ends must be recorded\n"
    "      --trigger request,WHAT,TIME     a request was not answered in that time; WHAT is\n"
    "                                      the name of the server, the function that it\n"
    "                                      runs, or the one that handled it\n"
    "      --trigger mailbox,N             more than N messages were sent to a process that\n"
    "                                      it has not fetched\n"
    "      --trigger exit,REASON           a process exited, neither normal nor shutdown\n"
    "      --trigger collection,TIME       a garbage collection took longer\n"
    "      --trigger schedule,TIME         a process kept a scheduler longer\n"
    "                                      FUNCTIONS, WHAT and REASON are names or patterns\n"
    "                                      with *; _ stands for anything\n"
    "      --from TIME        only what ends after it; see kymo help print\n"
    "  -n, --limit N          stop after N lines\n"
    "      --cooldown TIME    not again by the same trigger within TIME\n"
    "      --piped            for programs: ends with standard input; prints also\n"
    "                         {\"seen_ns\":N,\"suppressed\":N}, up to which time it has judged\n"
    "                         the events and how often it said nothing, and {\"missed\":true}\n"
    "                         when events were overwritten before it saw them\n"
    "  -q, --quiet            no warnings\n"
    "  -h, --help             this text\n";

const char *cli_help(const char *command)
{
    static const struct {
        const char *name, *text;
    } texts[] = {{"info", info},   {"print", print},         {"export", export}, {"stats", stats},
                 {"calls", calls}, {"mailboxes", mailboxes}, {"why", why},       {"diff", diff},
                 {"sql", sql},     {"report", report},       {"attach", attach}, {"watch", watch}};

    if (command == NULL)
        return general;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(command, texts[i].name) == 0)
            return texts[i].text;
    }
    return NULL;
}
