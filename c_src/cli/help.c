/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kymo_cli.h"

#define FILTERS \
    "Filters:\n" \
    "      --from TIME        only events from TIME on: 1.5s, 200ms or 1m30s after the\n" \
    "                         start of the recording; -2s before its last event; or a\n" \
    "                         date in UTC, 2024-05-01T12:00:00.5Z\n" \
    "      --to TIME          only events up to TIME\n" \
    "      --pid PROCESS      only this process or port: '<0.1.2>', '#Port<0.3>', a\n" \
    "                         registered name or label, or of several nodes\n" \
    "                         '<node@host.1.2>'; may be repeated\n" \
    "      --tag TAG,...      only these events: call, return_to, send, receive, spawn,\n" \
    "                         ..., or groups: calls, messages, procs, ports, running, gc\n" \
    "      --module MODULE    only events that name a function of MODULE; may be repeated\n"

#define ALL \
    "      --all              also older events, from before the time at which the\n" \
    "                         recording is complete, marked as incomplete\n"

#define COMMON \
    "  -q, --quiet            no progress bar, summary or warnings\n" \
    "      --strict           exit with 1 if events were lost, the files are damaged, or\n" \
    "                         another tracer removed trace flags or patterns\n" \
    "  -h, --help             show this text\n"

static const char general[] =
    "Usage: kymo COMMAND [OPTION]... RECORDING\n"
    "\n"
    "Reads recordings made by the flight recorder for the BEAM: of a running node, of a\n"
    "node that died, or a snapshot. RECORDING is the folder that the recorder wrote to.\n"
    "print, calls, why, report, export perfetto and export otlp take those of several\n"
    "nodes, or a folder with them in it, as one timeline.\n"
    "\n"
    "  kymo info RECORDING                    its state, contents and losses\n"
    "  kymo print RECORDING                   the events, one line each; calls as a tree\n"
    "  kymo stats RECORDING                   the cost of functions and processes\n"
    "  kymo calls RECORDING                   requests between processes, slowest first\n"
    "  kymo mailboxes RECORDING               messages by receiver, and how long they wait\n"
    "  kymo why RECORDING                     what made one request or call slow\n"
    "  kymo diff RECORDING RECORDING          what became slower or more frequent\n"
    "  kymo sql RECORDING SQL                 any other question, in SQL\n"
    "  kymo report RECORDING -o OUT.html      all of that as one page for a browser\n"
    "  kymo top RECORDING                     what the node does now, on the terminal\n"
    "  kymo live RECORDING                    the same as a page for a browser\n"
    "  kymo attach NODE... -o DIR             record running nodes\n"
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
    "Exit status: 0 success; 1 the recording is incomplete (with --strict), SQL failed, or\n"
    "a collector did not accept everything; 2 wrong usage; 3 the recording cannot be read;\n"
    "4 the output cannot be written; 5 out of memory; 6 a node cannot be reached or recorded.\n"
    "See kymo(1).\n";

static const char info[] = "Usage: kymo info [OPTION]... RECORDING\n"
                           "\n"
                           "Shows the state of a recording: how it ended, the node, the time from which it\n"
                           "is complete, the number of events by thread, tag, process and function, losses\n"
                           "and their causes, damage, limits, files, and the use of the dictionary.\n"
                           "\n"
                           "      --json             print one JSON object instead\n"
                           "  -n, --top N            list N processes and functions (10)\n" COMMON;

static const char print[] =
    "Usage: kymo print [OPTION]... RECORDING...\n"
    "\n"
    "Prints one line per event: TIME THREAD PROCESS EVENT, followed by its details.\n"
    "TIME is in seconds since the start of the recording.\n"
    "\n"
    "      --wall             print TIME as a date in UTC\n"
    "      --erlang           print TIME as erlang:monotonic_time(nanosecond)\n"
    "      --json             print one JSON object per line instead\n"
    "  -n, --limit N          stop after N lines\n"
    "  -f, --follow           wait for new events and print them, until the recording\n"
    "                         ends or Ctrl-C\n" ALL COMMON "\n"
    "With --tree: calls and their durations, indented below their callers. Takes --json,\n"
    "-n, --from, --to, --pid, --module, --function and\n"
    "      --slower TIME      only calls that took at least TIME: 10ms, 1.5s, ...\n"
    "\n" FILTERS;

#define ANALYSIS \
    "      --json             print one JSON object instead; times in nanoseconds\n" \
    "      --from TIME        ignore what ends before TIME; see kymo help print\n" \
    "      --to TIME          ignore what begins after TIME\n" \
    "      --pid PROCESS      only this process or port; may be repeated\n"

#define FUNCTIONS \
    "      --module MODULE    only functions of MODULE; may be repeated\n" \
    "      --function F       only lists:map/2, lists:map, Enum.map or my_*; may be repeated\n"

static const char stats[] =
    "Usage: kymo stats [OPTION]... RECORDING\n"
    "\n"
    "The cost of functions: number of calls, total and own time, the part of the total in\n"
    "which the process was scheduled in, the median, the 99th percentile and the maximum\n"
    "of a call, and the garbage collections in them. Unknown values are shown as -.\n"
    "\n"
    "      --by WHAT          function, module, process or role (processes with the same\n"
    "                         name, or that run the same function)\n"
    "      --sort COLUMN      self, total, running, calls, p50, p99, max or gc; for\n"
    "                         processes running, waiting, max, gc, calls, sent, received\n"
    "  -n, --top N            list N rows (20)\n" ANALYSIS FUNCTIONS COMMON;

static const char calls[] =
    "Usage: kymo calls [OPTION]... RECORDING...\n"
    "\n"
    "Requests between processes: calls of gen_server, gen_statem and gen_event, the I/O\n"
    "protocol, and tasks. Lists the servers, then the slowest requests: how long each was\n"
    "queued, was handled, and how long its reply took to arrive. ~ marks times that are\n"
    "derived from the order of the replies because the callbacks were not traced.\n"
    "\n"
    "      --tree             below each request, list those that its server made while\n"
    "                         handling it: which process blocks which\n"
    "      --casts            include casts\n"
    "  -n, --top N            list N servers and N requests (10)\n" ANALYSIS FUNCTIONS COMMON;

static const char mailboxes[] =
    "Usage: kymo mailboxes [OPTION]... RECORDING\n"
    "\n"
    "Messages by receiver: how many there were, who sent most of them, and how long they\n"
    "waited until the process fetched them (and, for requests, until it handled them).\n"
    "\n"
    "      --by WHAT          process or role\n"
    "      --sort COLUMN      received or wait\n"
    "  -n, --top N            list N rows (20)\n" ANALYSIS COMMON;

static const char why[] =
    "Usage: kymo why [OPTION]... RECORDING...\n"
    "\n"
    "Explains why the slowest request, or the slowest call of a function, was slow: its\n"
    "critical path across processes, in parts that add up to its duration.\n"
    "\n"
    "      --at TIME          explain the slowest one in progress at TIME\n"
    "      --path             also print the path, in order of time\n"
    "      --casts            include casts, from sending until they were handled\n"
    "  -n, --top N            explain the N slowest (1), at most 1000\n" ANALYSIS FUNCTIONS COMMON;

static const char diff[] =
    "Usage: kymo diff [OPTION]... A B\n"
    "\n"
    "Compares the functions of recordings A and B: own time per second of recording, mean\n"
    "duration of a call, and calls per second. A function is slower or faster if its means\n"
    "differ by more than 3 standard errors; otherwise the difference is noise.\n"
    "\n"
    "  -n, --top N            list N rows (20)\n" ANALYSIS FUNCTIONS COMMON;

static const char sql[] =
    "Usage: kymo sql [OPTION]... RECORDING SQL\n"
    "       kymo sql --tables\n"
    "\n"
    "Runs SQL statements (SQLite's dialect) on the tables of a recording: events, spans,\n"
    "messages, requests, processes, collections, running, functions, losses. SQL is one\n"
    "argument, or - for standard input. Unknown values are NULL. Times are integers, in\n"
    "nanoseconds since the start of the recording. Nothing is written to the recording;\n"
    "temporary tables are in memory.\n"
    "\n"
    "      --json             one JSON object per row and line\n"
    "      --csv              comma-separated values\n"
    "      --tables           list the tables and their columns\n" COMMON "\n"
    "Other programs with SQLite get the same tables: load the extension kymo_sqlite.so,\n"
    "then select kymo_open('RECORDING').\n";

static const char report[] =
    "Usage: kymo report [OPTION]... RECORDING... -o OUT.html\n"
    "\n"
    "Writes one HTML file, which needs neither kymo nor a network: what was slow and why, a\n"
    "flame graph, a timeline, latencies, mailboxes, collections, schedulers and losses.\n"
    "The numbers are those of stats, calls, mailboxes and why.\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --from TIME        ignore what ends before TIME; see kymo help print\n"
    "      --to TIME          ignore what begins after TIME\n" COMMON;

static const char top[] =
    "Usage: kymo top [OPTION]... RECORDING\n"
    "\n"
    "Shows what a node does now, from the recording that it is writing: functions by calls,\n"
    "self time and 99 % of their durations; processes by running time, messages and requests\n"
    "that wait for them; how busy schedulers are; lost events. The node does not notice.\n"
    "On a terminal it is a screen with keys; otherwise, or with a count, it prints tables.\n"
    "\n"
    "  -d, --delay TIME       between two tables, and the time that each is about (1s)\n"
    "  -n, --count N          print N tables and end\n"
    "      --once             the same as -n 1\n"
    "      --json             one JSON object per line instead; times in nanoseconds\n"
    "      --sort COLUMN      functions: calls, self (the default), p99 or max; processes:\n"
    "                         running (the default), in, out or waiting; may be repeated\n"
    "      --rows N           of each table (10); a screen has as many as fit\n"
    "  -q, --quiet            errors only\n"
    "  -h, --help             this text\n"
    "\n"
    "Keys: q quits; space pauses; c, s, 9 and m sort functions by calls, self, p99 and max;\n"
    "r, i, o and w sort processes by running, in, out and waiting.\n";

static const char live[] =
    "Usage: kymo live [OPTION]... RECORDING\n"
    "\n"
    "Serves the page of kymo report, of the newest time of a recording that is being\n"
    "written, and prints its address. The page asks for a new report every second. It\n"
    "listens on 127.0.0.1 only; who does not know the random part of the address gets\n"
    "nothing. Only reads; the node does not notice. Ctrl-C ends it.\n"
    "\n"
    "      --last TIME        the time that a report covers (10s); less if there are more\n"
    "                         events than can be analysed\n"
    "  -d, --delay TIME       between two reports (1s)\n"
    "      --port PORT        listen on this port (any that is free)\n"
    "  -h, --help             this text\n";

static const char export[] =
    "Usage: kymo export FORMAT [OPTION]... RECORDING... -o OUT\n"
    "\n"
    "  perfetto               a track per process, scheduler tracks, message arrows;\n"
    "                         open it in ui.perfetto.dev; takes several recordings\n"
    "  ctf                    OUT is a new folder; read it with babeltrace2\n"
    "  folded                 'process;function;function TIME', own time in\n"
    "                         nanoseconds, for flamegraph.pl or speedscope\n"
    "  speedscope             the same stacks for speedscope, one profile per role\n"
    "  dbg                    the trace messages, for dbg:trace_client(file, OUT, F)\n"
    "  ndjson                 OUT is a new folder, with a file of JSON lines for each table\n"
    "                         of kymo sql; of the filters only --from and --to\n"
    "  otlp                   requests, their parts and causes as OpenTelemetry spans;\n"
    "                         takes several recordings; only --from and --to\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --wall             folded, speedscope: all time, not only time scheduled in\n"
    "      --endpoint URL     otlp: post to this collector, such as http://localhost:4318,\n"
    "                         instead of writing a file\n"
    "      --header H         with --endpoint: add 'Name: value'; may be repeated\n"
    "      --cacert FILE      with --endpoint: the certificates to trust for https\n" ALL COMMON "\n" FILTERS;

static const char attach[] =
    "Usage: kymo attach [OPTION]... NODE... -o DIR\n"
    "       kymo attach --keep [OPTION]... NODE...\n"
    "       kymo attach --snapshot NODE... -o DIR\n"
    "       kymo attach --detach NODE... [-o DIR]\n"
    "       kymo attach --print [OPTION]... -o DIR\n"
    "       kymo attach --list\n"
    "       kymo attach --list-recorders NODE...\n"
    "\n"
    "Records a running node (OTP 25 or later) in which kymo is not installed. It connects,\n"
    "sends kymo, records, copies the recording into the new folder DIR, and removes from the\n"
    "node what it put there, even if the command is killed or the connection is lost. NODE\n"
    "is name@host, or the name of a node of this host. With several nodes, each has its own\n"
    "folder in DIR. Ctrl-C ends the recording and copies it.\n"
    "\n"
    "      --for TIME         end the recording after TIME: 10s, 5m, ...\n"
    "      --functions F      record calls of these functions, such as 'lists:_/_', and\n"
    "                         their ends; may be repeated\n"
    "      --events EVENT,... record messages, procs, ports, running, garbage_collection,\n"
    "                         ...; calls: do not record the ends of calls (default, without\n"
    "                         functions: messages, running, procs, garbage_collection)\n"
    "      --process NAME     record only this registered process; may be repeated\n"
    "      --policy POLICY    overwrite: keep the newest events; discard: keep all\n"
    "      --memory BYTES     memory of the recorder in the node (48 MiB)\n"
    "      --calls arguments  record the arguments of calls\n"
    "      --messages WHAT    record none, size (the default) or contents of messages\n"
    "      --budget BUDGET    what tracing may cost: 5% of each scheduler's time (the\n"
    "                         default), or 100000/s events; what is too much is shed, the\n"
    "                         most frequent functions first; off: no limit\n"
    "      --keep             leave the recorder in the node and return\n"
    "      --snapshot         copy what a recorder left with --keep holds now\n"
    "      --detach           end that recorder, copy its recording with -o, and clean up\n"
    "      --print            print an Erlang expression that records into DIR, for a\n"
    "                         shell of a node that can read this installation\n"
    "      --list             list the nodes of this machine and where their cookies are\n"
    "      --list-recorders   list the recorders of the nodes, whatever started them\n"
    "  -o, --output DIR       the folder for the recording; new or empty\n"
    "\n"
    "      --cookie-file FILE the file with the cookie (default: that of the node's command\n"
    "                         line or home directory if the node runs here, else your own)\n"
    "      --cookie COOKIE    the cookie; other users can see it in the process list\n"
    "      --erl ERL          the erl to run (erl)\n"
    "      --port PORT        the port that the node listens on; epmd is not asked\n"
    "      --pid PID          instead of NODE: the node with this process id, also in a\n"
    "                         container of this machine\n"
    "      --proto-dist NAME  the distribution protocol, inet_tls or inet6_tcp\n"
    "      --ssl-dist-optfile FILE  options of inet_tls, as for erl\n"
    "      --node-dir DIR     a folder of the node to try first; may be repeated\n"
    "  -q, --quiet            print errors only\n"
    "  -h, --help             show this text\n";

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
    } texts[] = {
        {"info", info},           {"print", print}, {"export", export}, {"stats", stats}, {"calls", calls},
        {"mailboxes", mailboxes}, {"why", why},     {"diff", diff},     {"sql", sql},     {"report", report},
        {"attach", attach},       {"watch", watch}, {"top", top},       {"live", live}};

    if (command == NULL)
        return general;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(command, texts[i].name) == 0)
            return texts[i].text;
    }
    return NULL;
}
