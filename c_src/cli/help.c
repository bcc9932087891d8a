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
    "      --events EVENT,... only these events: call, return_to, send, receive, spawn,\n" \
    "                         ..., or groups: calls, messages, procs, ports, running,\n" \
    "                         garbage_collection\n" \
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
    "print, requests, why, report, export perfetto and export otlp take those of several\n"
    "nodes, or a folder with them in it, as one timeline.\n"
    "\n"
    "  kymo info RECORDING                    its state, contents and losses\n"
    "  kymo print RECORDING                   the events, one line each; calls as a tree\n"
    "  kymo stats RECORDING                   the cost of functions and processes\n"
    "  kymo requests RECORDING                requests between processes, slowest first\n"
    "  kymo mailboxes RECORDING               messages by receiver, and how long they wait\n"
    "  kymo why RECORDING                     what made one request or call slow\n"
    "  kymo check RECORDING|NODE              what is wrong, the most important first\n"
    "  kymo diff RECORDING RECORDING          what became slower or more frequent\n"
    "  kymo sql RECORDING SQL                 any other question, in SQL\n"
    "  kymo report RECORDING -o OUT.html      all of that as one page for a browser\n"
    "  kymo top RECORDING|NODE                current activity of a node, on the terminal\n"
    "  kymo live RECORDING|NODE               the same as a page for a browser\n"
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
    "4 the output cannot be written; 5 out of memory; 6 a node cannot be reached or recorded;\n"
    "7 kymo check has findings.\n"
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
    "      --utc              print TIME as a date in UTC\n"
    "      --erlang           print TIME as erlang:monotonic_time(nanosecond)\n"
    "      --json             print one JSON object per line instead\n"
    "  -n, --limit N          stop after N lines\n"
    "  -f, --follow           wait for new events and print them, until the recording\n"
    "                         ends or Ctrl-C\n" ALL COMMON "\n"
    "With --tree: calls and their durations, indented below their callers. Takes --json,\n"
    "-n, --from, --to, --pid, --module, --function and\n"
    "      --slower TIME      only calls that took at least TIME: 10ms, 1.5s, ... Calls that\n"
    "                         the runtime reported as slow are shown too, with (slow)\n"
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

static const char requests[] =
    "Usage: kymo requests [OPTION]... RECORDING...\n"
    "\n"
    "Requests between processes: calls of gen_server, gen_statem and gen_event, the I/O\n"
    "protocol, and tasks. Lists the servers, then the slowest requests: how long each was\n"
    "queued, was handled, and how long its reply took to arrive. ~ marks times that are\n"
    "derived from the order of the replies because the callbacks were not traced.\n"
    "\n"
    "      --tree             below each request, list those that its server made while\n"
    "                         handling it: which process blocks which. A request that was\n"
    "                         listed below another one is not listed again\n"
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
    "      --path             also print the path, in order of time, and all small parts\n"
    "      --casts            include casts, from sending until they were handled\n"
    "      --all              compare the slowest hundredth of all requests to a server\n"
    "                         with normal ones, by cause, and what the 99th percentile\n"
    "                         would be without each\n"
    "  -n, --top N            explain the N slowest (1), at most 1000; with --all the N\n"
    "                         servers whose slow requests took most (3)\n" ANALYSIS FUNCTIONS COMMON;

#define OF_A_NODE(port_note, port) \
    "\n" \
    "Options for a NODE, with the same meaning as in kymo help attach:\n" \
    "  what is recorded:\n" \
    "      --functions F, --slow F=TIME, --events EVENT,..., --process NAME,\n" \
    "      --calls arguments, --messages WHAT, --budget BUDGET, --memory BYTES\n" \
    "  how to connect" port_note ":\n" \
    "      --cookie-file FILE, --cookie COOKIE, --erl ERL, " port " PORT, --pid PID,\n" \
    "      --proto-dist NAME, --ssl-dist-optfile FILE, --node-dir DIR, --timeout TIME\n"
#define OF_A_SHOWN_NODE OF_A_NODE(" (--node-port is the --port of attach)", "--node-port")

static const char check[] =
    "Usage: kymo check [OPTION]... RECORDING|NODE\n"
    "       kymo check --list\n"
    "       kymo check --print RULE\n"
    "\n"
    "Prints what is wrong, as numbered sentences, the most important first, each with the\n"
    "command that shows more. Exits with 7 if there is any, with 0 if there is none. Each rule\n"
    "is a SQL statement over the tables of kymo sql.\n"
    "NODE is name@host, or the name of a node of this host. It is recorded first, as with\n"
    "kymo attach; if that fails, the status is that of kymo attach.\n"
    "\n"
    "      --json             one JSON object\n"
    "      --brief            without the commands that show more\n"
    "      --rules FOLDER     also use the rules in FOLDER/*.sql\n"
    "      --list             list the rules, and what they look for\n"
    "      --print RULE       print a rule, to start one of your own from it\n" COMMON "\n"
    "For a NODE:\n"
    "      --for TIME         record for TIME (5s)\n"
    "  -o, --output DIR       copy the recording into DIR, which is new or empty. Default: a\n"
    "                         new folder in $TMPDIR or /tmp, which stays if there are\n"
    "                         findings\n" OF_A_NODE("", "--port");

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
    "messages, requests, processes, collections, running, functions, losses, shed, counters,\n"
    "system_monitor. SQL is one argument, or - for standard input. Unknown values are NULL.\n"
    "Times are integers, in nanoseconds since the start of the recording. Nothing is written\n"
    "to the recording; temporary tables are in memory.\n"
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
    "The numbers are those of stats, requests, mailboxes and why.\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --from TIME        ignore what ends before TIME; see kymo help print\n"
    "      --to TIME          ignore what begins after TIME\n" COMMON;

static const char top[] =
    "Usage: kymo top [OPTION]... RECORDING|NODE\n"
    "\n"
    "Shows the current activity of a node from the recording that the node is writing:\n"
    "functions with calls, own time, 99th percentile and maximum; processes with running\n"
    "time, messages in and out, and waiting requests; the load of the schedulers; run queue,\n"
    "process count, memory and reports of the system monitor, if they are recorded; and\n"
    "lost events. Calls that the runtime reported as slow count as calls. It only reads the\n"
    "recording, which costs the node nothing.\n"
    "On a terminal it updates the screen and takes keys. With --count, --once or --json, or\n"
    "when the output is not a terminal, it prints one table after another.\n"
    "NODE, name@host, is a running node of this machine. kymo attaches to it, and detaches\n"
    "when the command ends.\n"
    "\n"
    "  -d, --delay TIME       the time between two tables, which each table covers (1s)\n"
    "  -n, --count N          print N tables, then end\n"
    "      --once             the same as -n 1\n"
    "      --json             print one JSON object per line; times in nanoseconds\n"
    "      --sort COLUMN      functions: calls, self (the default), p99 or max; processes:\n"
    "                         running (the default), in, out or waiting; may be repeated\n"
    "      --rows N           rows of each table (10; on a screen, as many as fit)\n"
    "  -q, --quiet            print errors only\n"
    "  -h, --help             show this text\n" OF_A_SHOWN_NODE "\n"
    "Keys: q quits; space pauses; c, s, 9 and m sort functions by calls, self, p99 and max;\n"
    "r, i, o and w sort processes by running, in, out and waiting.\n";

static const char live[] =
    "Usage: kymo live [OPTION]... RECORDING|NODE\n"
    "\n"
    "Serves the page of kymo report for the last seconds of a recording that is being\n"
    "written, and prints its URL. The page fetches a new report every second. The server\n"
    "listens on 127.0.0.1 only, and the URL contains a random token, without which it\n"
    "serves nothing. It only reads the recording, which costs the node nothing. Ctrl-C ends\n"
    "the command.\n"
    "NODE, name@host, is a running node of this machine. kymo attaches to it, and detaches\n"
    "when the command ends.\n"
    "\n"
    "      --last TIME        the time that a report covers (10s); less if there are more\n"
    "                         events than can be analysed\n"
    "  -d, --delay TIME       the time between two reports (1s)\n"
    "      --port PORT        listen on this port (default: any free port)\n"
    "  -h, --help             show this text\n" OF_A_SHOWN_NODE;

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
    "                         of kymo sql; takes no filters except --from and --to\n"
    "  otlp                   requests, their parts and causes as OpenTelemetry spans, and\n"
    "                         the node's counters as metrics; takes several recordings, and\n"
    "                         no filters except --from and --to\n"
    "\n"
    "  -o, --output OUT       the file to write, - for standard output\n"
    "      --wall             folded, speedscope: elapsed time, including time in which the\n"
    "                         process was scheduled out\n"
    "      --endpoint URL     otlp: post to this collector, such as http://localhost:4318,\n"
    "                         instead of writing a file; @FILE: the URL is in FILE, and in\n"
    "                         no list of processes\n"
    "      --header H         with --endpoint: add 'Name: value', or with @FILE the lines of\n"
    "                         FILE; may be repeated\n"
    "      --cacert FILE      with --endpoint: the certificates to trust for https\n" ALL COMMON "\n" FILTERS;

static const char attach[] =
    "Usage: kymo attach [OPTION]... NODE... -o DIR\n"
    "       kymo attach --keep [OPTION]... NODE... [-o DIR]\n"
    "       kymo attach --snapshot NODE... -o DIR\n"
    "       kymo attach --detach NODE... [-o DIR]\n"
    "       kymo attach --print [OPTION]... -o DIR\n"
    "       kymo attach --list\n"
    "       kymo attach --list-recorders NODE...\n"
    "\n"
    "Records a running node (OTP 25 or later) that need not have kymo installed: connects to\n"
    "it, sends kymo's modules and library, records, and copies the recording into the new\n"
    "folder DIR. Everything that was sent is removed from the node at the end, even if the\n"
    "command is killed or the connection is lost. If the copy fails, as when the disk is full,\n"
    "the recording stays in the node until it is copied with --detach -o DIR; if it is\n"
    "interrupted, for ten minutes, and --detach -o DIR copies the rest into the same DIR. If\n"
    "the node does not answer, the command prints what its threads do. NODE is name@host, or\n"
    "just the name of a node of this host. Several nodes are recorded into a folder each in\n"
    "DIR. Ctrl-C ends the recording and copies it; a second one gives it up.\n"
    "\n"
    "      --for TIME         end the recording after TIME: 10s, 5m, ...\n"
    "      --functions F      record calls of these functions, such as 'lists:_/_', and\n"
    "                         their returns; may be repeated\n"
    "      --slow F=TIME      record only calls of F that took at least TIME, such as\n"
    "                         'lists:sort/1=10ms', with their durations; needs a node with\n"
    "                         the patched runtime; may be repeated\n"
    "      --events EVENT,... record messages, procs, ports, running, garbage_collection,\n"
    "                         ...; with calls in the list, returns are not recorded.\n"
    "                         Default if neither --functions nor --slow is given: messages,\n"
    "                         running, procs, garbage_collection\n"
    "      --process NAME     record only this registered process; may be repeated\n"
    "      --policy POLICY    overwrite: keep the newest events; discard: keep all\n"
    "      --memory BYTES     memory of the recorder in the node (48 MiB)\n"
    "      --calls arguments  record the arguments of calls\n"
    "      --messages WHAT    record none, size (the default) or contents of messages\n"
    "      --budget BUDGET    the most that tracing may cost: a share of each scheduler's\n"
    "                         time (5%, the default), or a number of events (100000/s).\n"
    "                         Beyond it, the most frequent functions are no longer recorded.\n"
    "                         off: no limit\n"
    "      --counters TIME    interval at which the node's counters are recorded (100ms);\n"
    "                         off: do not record them\n"
    "      --system-monitor WHAT\n"
    "                         default: record reports of erlang:system_monitor/2; off: don't\n"
    "      --garbage-collection WHAT\n"
    "                         auto: leave collections out where the runtime crashes if another\n"
    "                         tool traces them, too (OTP 27 and later); always: record them\n"
    "      --received-messages WHAT\n"
    "                         auto: leave the events of received messages out where processes\n"
    "                         that hibernate may then not be woken up (OTP 27.0 to 27.3.4.7 and\n"
    "                         28.0 to 28.3.1); always: record them\n"
    "      --trigger TRIGGER  when something exceeds a limit (see kymo help watch), copy a\n"
    "                         snapshot into a new folder in DIR.triggered; may be repeated\n"
    "      --cooldown TIME    after a trigger has fired, ignore it for TIME (10s)\n"
    "      --max N            triggers copy at most N snapshots of each node (100)\n"
    "      --keep-snapshots N keep the newest N of these snapshots (10)\n"
    "      --keep-bytes BYTES keep at most this much of them (1073741824). This and the two\n"
    "                         options before also take infinity\n"
    "      --keep             leave the recorder in the node and return. With -o, stay\n"
    "                         connected instead, and copy a snapshot into DIR each time\n"
    "                         Enter is pressed or a trigger fires, until the recording ends\n"
    "                         (--for) or the command is interrupted\n"
    "      --snapshot         copy the current contents of a recorder left by --keep\n"
    "      --detach           end a recorder left by --keep and clean up the node; with -o,\n"
    "                         copy its recording first, or the rest of it\n"
    "      --print            print an Erlang expression that records into DIR, for the\n"
    "                         shell of a node that can read this installation\n"
    "      --list             list the nodes of this machine and the places of their cookies\n"
    "      --list-recorders   list all recorders of the nodes, also those that kymo attach\n"
    "                         did not start\n"
    "  -o, --output DIR       the folder for the recording; new or empty\n"
    "\n"
    "      --cookie-file FILE the file with the cookie. Default: for a node of this machine,\n"
    "                         the cookie of its command line or its user's home directory;\n"
    "                         else your own\n"
    "      --cookie COOKIE    the cookie; other users can see it in the process list\n"
    "      --erl ERL          the erl to run (erl)\n"
    "      --port PORT        connect to this port instead of asking epmd for it\n"
    "      --pid PID          instead of NODE: the node with this process id, which may be\n"
    "                         in a container of this machine\n"
    "      --proto-dist NAME  the distribution protocol: inet_tcp (the default), inet6_tcp,\n"
    "                         inet_tls or inet6_tls\n"
    "      --ssl-dist-optfile FILE  options of inet_tls, as for erl, without expressions\n"
    "      --node-dir DIR     a folder on the node that is tried first for the library and\n"
    "                         the recording; may be repeated\n"
    "      --timeout TIME     how long to wait until NODE records, and for each answer after\n"
    "                         that (30s)\n"
    "  -q, --quiet            print errors only\n"
    "  -h, --help             show this text\n";

static const char watch[] =
    "Usage: kymo watch [OPTION]... --trigger TRIGGER... RECORDING\n"
    "\n"
    "Follows a recording until it ends or Ctrl-C is pressed, and prints a JSON object on a\n"
    "line each time a trigger fires. A call, request or running process fires once, as soon\n"
    "as it has taken longer than TIME (50ms, 1.5s, ...); \"open\":true means that it had not\n"
    "ended yet. If procs events are not recorded, it fires only when it ends.\n"
    "\n"
    "      --trigger call,FUNCTIONS,TIME   a call took longer; returns must be recorded\n"
    "      --trigger request,WHAT,TIME     a request was not answered in that time; WHAT is\n"
    "                                      the name of the server, the function that it\n"
    "                                      runs, or the one that handled the request\n"
    "      --trigger mailbox,N             a process has more than N messages that it has\n"
    "                                      not fetched, or in its mailbox by the counters\n"
    "      --trigger exit,REASON           a process exited for a reason other than normal\n"
    "                                      and shutdown\n"
    "      --trigger collection,TIME       a garbage collection took longer\n"
    "      --trigger schedule,TIME         a process ran longer without being scheduled out\n"
    "      --trigger stopped,TIME          the node's counters were not sampled for longer:\n"
    "                                      no process could run\n"
    "      --trigger reported,KIND         the system monitor reported long_gc,\n"
    "                                      long_schedule, large_heap, busy_port, ...\n"
    "                                      FUNCTIONS, WHAT, REASON and KIND are names or\n"
    "                                      patterns with *; _ matches anything\n"
    "      --from TIME        ignore what ends before TIME; see kymo help print\n"
    "  -n, --limit N          stop after N lines\n"
    "      --cooldown TIME    after a trigger has fired, ignore it for TIME\n"
    "      --piped            for programs: end when standard input is closed. Also print\n"
    "                         {\"seen_ns\":N,\"suppressed\":N} regularly, the time up to which\n"
    "                         events were examined and the number of firings not printed;\n"
    "                         and {\"missed\":true} if events were overwritten unseen\n"
    "  -q, --quiet            print no warnings\n"
    "  -h, --help             show this text\n";

const char *cli_help(const char *command)
{
    static const struct {
        const char *name, *text;
    } texts[] = {{"info", info},   {"print", print},       {"export", export},
                 {"stats", stats}, {"requests", requests}, {"mailboxes", mailboxes},
                 {"why", why},     {"check", check},       {"diff", diff},
                 {"sql", sql},     {"report", report},     {"attach", attach},
                 {"watch", watch}, {"top", top},           {"live", live}};

    if (command == NULL)
        return general;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(command, texts[i].name) == 0)
            return texts[i].text;
    }
    return NULL;
}
