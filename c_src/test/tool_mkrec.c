/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a synthetic recording with the real recorder, for tests and benchmarks of the reader and the
 * exporters. The same options produce the same events, with different times.
 *
 * Each thread acts as a scheduler: it runs one process at a time (in, out), which calls and returns on
 * its own stack, exchanges messages with other processes of the thread, collects garbage, spawns and
 * exits.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kymo_writer.h"

#define MAX_DEPTH 24
#define N_MODULES 40
#define N_FUNCTIONS 25

enum kind { CALL, RETURN, SEND, SCHED, GC, LIFE, MISC, N_KINDS };
static const char *const kind_names[N_KINDS] = {"call", "return", "send", "sched", "gc", "life", "misc"};

static struct {
    const char *dir;
    const char *snapshot;
    uint64_t share; /* segments of the pool that one thread may be ahead of the worker */
    uint64_t events;
    unsigned threads, procs;
    uint64_t seed;
    unsigned mix[N_KINDS];
    unsigned content_pct, opts_pct;
    bool crash, sizes, lossy;
    struct kymo_options rec;
} opt = {
    .dir = NULL,
    .events = 1000000,
    .threads = 2,
    .procs = 1000,
    .seed = 1,
    .mix = {30, 30, 15, 15, 4, 2, 4},
    .content_pct = 5,
    .opts_pct = 1,
    .sizes = true,
};

struct process {
    uint64_t ident;
    uint32_t depth;
    uint32_t stack[MAX_DEPTH]; /* function numbers */
};

struct player {
    pthread_t thread;
    struct kymo_recorder *rec;
    unsigned no;
    uint64_t quota, rng;
    struct process *procs;
    unsigned n_procs, current;
    uint64_t next_pid;
    uint64_t done;
};

static uint64_t rnd(struct player *p)
{
    uint64_t x = p->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    p->rng = x;
    return x * 0x2545f4914f6cdd1du;
}

static unsigned below(struct player *p, unsigned n)
{
    return (unsigned)(((rnd(p) >> 32) * n) >> 32);
}

/* ---- names --------------------------------------------------------------------- */

#define ATOM_WORD(kind, n) (((uint64_t)(kind) << 20 | (uint64_t)(n)) << 6 | 0xb)

static uint32_t atom(struct kymo_writer *w, unsigned kind, unsigned n, const char *format)
{
    uint64_t word = ATOM_WORD(kind, n);
    uint32_t id = kymo_dict_atom(w, word);
    char text[64];

    if (id == 0) {
        (void)snprintf(text, sizeof text, format, n);
        id = kymo_dict_atom_add(w, word, text, strlen(text));
    }
    return id;
}

static uint32_t mfa(struct kymo_writer *w, unsigned function)
{
    unsigned m = function / N_FUNCTIONS, f = function % N_FUNCTIONS;
    uint32_t arity = f % 5;
    uint32_t id = kymo_dict_mfa(w, ATOM_WORD(1, m), ATOM_WORD(2, f), arity);

    if (id != 0)
        return id;
    return kymo_dict_mfa_add(w, ATOM_WORD(1, m), ATOM_WORD(2, f), arity, atom(w, 1, m, "module_%u"),
                             atom(w, 2, f, f % 7 == 6 ? "-fun%u/1-lc$^0/1-0-" : "function_%u"));
}

/* ---- records --------------------------------------------------------------------- */

/* [{key, 17}, <<"...">>] of n bytes of binary, without the 131. */
static uint8_t *put_term(uint8_t *p, unsigned n)
{
    static const uint8_t start[] = {108, 0, 0, 0, 2, 104, 2, 119, 3, 'k', 'e', 'y', 97, 17, 109, 0, 0};

    memcpy(p, start, sizeof start);
    p += sizeof start;
    p = kymo_put8(p, (uint8_t)(n >> 8));
    p = kymo_put8(p, (uint8_t)n);
    memset(p, 'x', n);
    p += n;
    return kymo_put8(p, 106);
}
#define TERM_MAX (17 + 2 + 200 + 1)

struct record {
    uint8_t body[112];
    uint8_t *at;
    unsigned id;
};

static void emit(struct player *p, struct kymo_writer *w, struct record *r, bool may_content)
{
    size_t len = (size_t)(r->at - r->body);
    bool content = may_content && below(p, 100) < opt.content_pct;
    bool opts = below(p, 100) < opt.opts_pct;
    unsigned n = content ? below(p, 200) : 0;
    uint8_t *q;

    q = kymo_reserve(w, r->id | (content ? KYMO_HAS_CONTENT : 0) | (opts ? KYMO_HAS_OPTS : 0),
                     len + (content ? KYMO_CONTENT_HDR + TERM_MAX : 0) + (opts ? KYMO_OPTS_HDR : 0));
    if (q == NULL)
        return;
    memcpy(q, r->body, len);
    q += len;
    if (content) {
        uint8_t *end = put_term(q + KYMO_CONTENT_HDR, n);

        kymo_put16(kymo_put8(q, n > 150 ? KYMO_C_CUT : 0), (uint16_t)(end - q - KYMO_CONTENT_HDR));
        q = end;
    }
    if (opts) {
        q = kymo_put16(kymo_put8(q, KYMO_O_SCHED | KYMO_O_TS), (uint16_t)(p->no + 1));
        q = kymo_put64(kymo_put64(kymo_put8(q, KYMO_TS_STRICT), (uint64_t)p->done * 1000), p->done);
        q = kymo_put16(q, 0);
    }
    kymo_commit(w, q);
}

static void event(struct player *p, unsigned id, uint64_t who, uint32_t m, uint64_t peer, uint32_t a,
                  unsigned shape, bool may_content)
{
    struct kymo_writer *w = kymo_writer_get(p->rec);
    struct record r;

    p->done++;
    if (w == NULL)
        return;
    r.id = id;
    r.at = kymo_put64(r.body, who);
    switch (shape) {
    case 'M': r.at = kymo_put32(r.at, mfa(w, m)); break;
    case 'P': /* peer, size */ r.at = kymo_put32(kymo_put64(r.at, peer), a); break;
    case 'S': /* peer, mfa */ r.at = kymo_put32(kymo_put64(r.at, peer), mfa(w, m)); break;
    case 'L': r.at = kymo_put64(r.at, peer); break;
    case 'A': r.at = kymo_put32(r.at, atom(w, 3, a, "reason_%u")); break;
    case 'E': r.at = kymo_put32(kymo_put32(r.at, mfa(w, m)), atom(w, 4, a, "class_%u")); break;
    default: { /* garbage collection */
        r.at = kymo_put8(r.at, opt.sizes ? KYMO_GC_SIZES : 0);
        for (unsigned i = 0; opt.sizes && i < KYMO_GC_SIZES; i++)
            r.at = kymo_put64(r.at, 233 * (i + 1) + a);
        break;
    }
    }
    emit(p, w, &r, may_content);
    kymo_writer_put(w);
}

/* ---- play ------------------------------------------------------------------------- */

static uint64_t new_ident(struct player *p)
{
    uint64_t n = p->next_pid++;

    return KYMO_IDENT(KYMO_I_PID, (n * opt.threads + p->no) % (1u << 28) | ((n * opt.threads) >> 28) << 28);
}

static void describe(struct player *p, const struct process *q, unsigned i)
{
    struct kymo_writer *w = kymo_writer_get(p->rec);

    if (w == NULL)
        return;
    struct kymo_described d = {.ident = q->ident, .parent = KYMO_IDENT_NONE, .caller = KYMO_IDENT_NONE};
    d.name = i < 20 ? atom(w, 5, i + p->no * 20, "server_%u") : 0;
    d.mfa = mfa(w, i % 100);
    (void)kymo_dict_process(w, &d);
    kymo_writer_put(w);
}

static unsigned top(const struct process *q)
{
    return q->depth == 0 ? 0 : q->stack[q->depth - 1];
}

static void switch_process(struct player *p)
{
    struct process *q = &p->procs[p->current];

    event(p, KYMO_E_OUT, q->ident, top(q), 0, 0, 'M', false);
    p->current = below(p, p->n_procs);
    q = &p->procs[p->current];
    event(p, KYMO_E_IN, q->ident, top(q), 0, 0, 'M', false);
}

static void live_and_die(struct player *p)
{
    struct process *parent = &p->procs[p->current];
    struct process *q = &p->procs[(p->current + 1) % p->n_procs];
    unsigned f = below(p, N_MODULES * N_FUNCTIONS);

    if (p->n_procs > 1) {
        event(p, KYMO_E_EXIT, q->ident, 0, 0, below(p, 5), 'A', true);
        q->ident = new_ident(p);
        q->depth = 0;
        event(p, KYMO_E_SPAWN, parent->ident, f, q->ident, 0, 'S', true);
        event(p, KYMO_E_SPAWNED, q->ident, f, parent->ident, 0, 'S', true);
    }
}

static void step(struct player *p, enum kind k)
{
    struct process *q = &p->procs[p->current];
    struct process *other = &p->procs[below(p, p->n_procs)];

    switch (k) {
    case CALL: {
        /* As in real programs, a function calls few others. */
        unsigned f = q->depth == 0 ? below(p, 20) : top(q) * 31 + 7 + (q->depth < 6 ? below(p, 2) * 13 : 0);

        f %= N_MODULES * N_FUNCTIONS;
        if (q->depth == MAX_DEPTH)
            q->depth--; /* a tail call takes its caller's place */
        q->stack[q->depth++] = f;
        event(p, KYMO_E_CALL, q->ident, f, 0, 0, 'M', true);
        break;
    }
    case RETURN:
        if (q->depth == 0) {
            step(p, CALL);
        } else if (below(p, 50) == 0) {
            event(p, KYMO_E_EXCEPTION_FROM, q->ident, top(q), 0, below(p, 3), 'E', true);
            q->depth--;
        } else {
            if (below(p, 2) == 0)
                event(p, KYMO_E_RETURN_FROM, q->ident, top(q), 0, 0, 'M', true);
            q->depth--;
            event(p, KYMO_E_RETURN_TO, q->ident, top(q), 0, 0, 'M', false);
        }
        break;
    case SEND: {
        uint32_t words = 2 + below(p, 60);

        event(p, KYMO_E_SEND, q->ident, 0, other->ident, words, 'P', true);
        event(p, KYMO_E_RECEIVE, other->ident, 0, q->ident, words, 'P', true);
        break;
    }
    case SCHED: switch_process(p); break;
    case GC: {
        unsigned major = below(p, 10) == 0 ? 2 : 0;

        event(p, KYMO_E_GC_MINOR_START + major, q->ident, 0, 0, below(p, 1000), 'G', false);
        event(p, KYMO_E_GC_MINOR_END + major, q->ident, 0, 0, below(p, 1000), 'G', false);
        break;
    }
    case LIFE: live_and_die(p); break;
    default:
        event(p, below(p, 2) ? KYMO_E_LINK : KYMO_E_UNLINK, q->ident, 0, other->ident, 0, 'L', false);
        break;
    }
}

/* Waits for the worker, which a tracer never does, so that the recording has a known size. */
static void wait_for_worker(struct player *p)
{
    struct kymo_writer *w = kymo_writer_get(p->rec);
    uint32_t slot = w != NULL ? w->index : 0;
    struct kymo_slot s;

    if (w == NULL)
        return;
    kymo_writer_put(w);
    while (kymo_recorder_slot(p->rec, slot, &s) == 0 && s.seq > s.drained_seq + opt.share)
        usleep(200);
}

static void *play(void *arg)
{
    struct player *p = arg;
    uint8_t kinds[1024];
    unsigned total = 0, n = 0;

    for (unsigned k = 0; k < N_KINDS; k++)
        total += opt.mix[k];
    for (unsigned k = 0, sum = 0; k < N_KINDS; k++) {
        sum += opt.mix[k];
        while (n < sum * sizeof kinds / total)
            kinds[n++] = (uint8_t)k;
    }
    for (unsigned i = 0; i < p->n_procs; i++) {
        p->procs[i].ident = new_ident(p);
        describe(p, &p->procs[i], i);
    }
    for (unsigned n_steps = 0; p->done < p->quota && kymo_recorder_active(p->rec); n_steps++) {
        if (n_steps % 256 == 0 && opt.rec.policy == KYMO_DISCARD && !opt.lossy)
            wait_for_worker(p);
        step(p, (enum kind)kinds[rnd(p) >> 54]);
    }
    return NULL;
}

/* ---- options ---------------------------------------------------------------------- */

static void usage(int status)
{
    fprintf(status == 0 ? stdout : stderr,
            "usage: tool_mkrec --dir DIR [options]\n"
            "  --events N        about this many, of all threads together (default 1000000)\n"
            "  --threads T       (2)\n"
            "  --procs P         processes of all threads together (1000)\n"
            "  --policy overwrite|discard (discard)\n"
            "  --mix K=W,...     weights of call, return, send, sched, gc, life, misc\n"
            "  --content PCT     records with contents, of those that can have them (5)\n"
            "  --opts PCT        records with options (1)\n"
            "  --no-gc-sizes\n"
            "  --lossy           policy discard: don't wait for the worker when the pool is half full\n"
            "  --segment BYTES, --memory BYTES, --file-bytes N, --dict-bytes N, --limit-events N\n"
            "  --clock counter|mono\n"
            "  --seed N\n"
            "  --snapshot DIR    also a snapshot, before the end\n"
            "  --crash           _exit without closing\n");
    exit(status);
}

static uint64_t number(const char *s)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(s, &end, 10);
    if (errno != 0 || end == s || *end != '\0' || *s == '-')
        usage(2);
    return v;
}

static void parse_mix(char *s)
{
    memset(opt.mix, 0, sizeof opt.mix);
    for (char *save, *part = strtok_r(s, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(part, '=');
        unsigned k = 0;

        if (eq == NULL)
            usage(2);
        *eq = '\0';
        while (k < N_KINDS && strcmp(part, kind_names[k]) != 0)
            k++;
        if (k == N_KINDS)
            usage(2);
        opt.mix[k] = (unsigned)number(eq + 1) % 1000;
    }
}

static void parse(int argc, char **argv)
{
    enum {
        DIR_,
        EVENTS,
        THREADS,
        PROCS,
        POLICY,
        MIX,
        CONTENT,
        OPTS,
        NO_GC,
        LOSSY,
        SEGMENT,
        MEMORY,
        FILE_BYTES,
        DICT_BYTES,
        LIMIT,
        CLOCK,
        SEED,
        SNAPSHOT,
        CRASH,
        HELP
    };
    static const struct option longs[] = {
        {"dir", 1, NULL, DIR_},
        {"events", 1, NULL, EVENTS},
        {"threads", 1, NULL, THREADS},
        {"procs", 1, NULL, PROCS},
        {"policy", 1, NULL, POLICY},
        {"mix", 1, NULL, MIX},
        {"content", 1, NULL, CONTENT},
        {"opts", 1, NULL, OPTS},
        {"no-gc-sizes", 0, NULL, NO_GC},
        {"lossy", 0, NULL, LOSSY},
        {"segment", 1, NULL, SEGMENT},
        {"memory", 1, NULL, MEMORY},
        {"file-bytes", 1, NULL, FILE_BYTES},
        {"dict-bytes", 1, NULL, DICT_BYTES},
        {"limit-events", 1, NULL, LIMIT},
        {"clock", 1, NULL, CLOCK},
        {"seed", 1, NULL, SEED},
        {"snapshot", 1, NULL, SNAPSHOT},
        {"crash", 0, NULL, CRASH},
        {"help", 0, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case DIR_: opt.dir = optarg; break;
        case EVENTS: opt.events = number(optarg); break;
        case THREADS: opt.threads = (unsigned)number(optarg); break;
        case PROCS: opt.procs = (unsigned)number(optarg); break;
        case POLICY: opt.rec.policy = strcmp(optarg, "overwrite") == 0 ? KYMO_OVERWRITE : KYMO_DISCARD; break;
        case MIX: parse_mix(optarg); break;
        case CONTENT: opt.content_pct = (unsigned)number(optarg); break;
        case OPTS: opt.opts_pct = (unsigned)number(optarg); break;
        case NO_GC: opt.sizes = false; break;
        case LOSSY: opt.lossy = true; break;
        case SEGMENT: opt.rec.segment_bytes = (uint32_t)number(optarg); break;
        case MEMORY: opt.rec.memory = number(optarg); break;
        case FILE_BYTES: opt.rec.file_bytes = number(optarg); break;
        case DICT_BYTES: opt.rec.dict_bytes = number(optarg); break;
        case LIMIT: opt.rec.limit_events = number(optarg); break;
        case CLOCK:
            opt.rec.clock = strcmp(optarg, "mono") == 0 ? KYMO_CLOCK_MONOTONIC : KYMO_CLOCK_COUNTER;
            break;
        case SEED: opt.seed = number(optarg); break;
        case SNAPSHOT: opt.snapshot = optarg; break;
        case CRASH: opt.crash = true; break;
        case HELP: usage(0); break;
        default: usage(2);
        }
    }
    if (opt.dir == NULL || optind != argc || opt.threads < 1 || opt.threads > 1000 || opt.procs < 1 ||
        opt.procs > 100000000)
        usage(2);
}

static void thread_is(enum kymo_thread *kind, uint32_t *no)
{
    static uint32_t last;

    *kind = KYMO_T_SCHEDULER;
    *no = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

_Noreturn static void die(const char *what, int rc)
{
    fprintf(stderr, "tool_mkrec: %s: %s\n", what, strerror(-rc));
    exit(1);
}

static void play_all(struct kymo_recorder *rec)
{
    struct player *players = calloc(opt.threads, sizeof *players);

    if (players == NULL)
        die("memory", -ENOMEM);
    for (unsigned i = 0; i < opt.threads; i++) {
        struct player *p = &players[i];
        int rc;

        p->rec = rec;
        p->no = i;
        p->rng = (opt.seed + 1) * 0x9e3779b97f4a7c15u + i * 0x632be59bd9b4e019u;
        p->quota = opt.events / opt.threads + (i < opt.events % opt.threads);
        p->n_procs = opt.procs / opt.threads + 1;
        p->next_pid = 100;
        p->procs = calloc(p->n_procs, sizeof *p->procs);
        rc = p->procs == NULL ? ENOMEM : pthread_create(&p->thread, NULL, play, p);
        if (rc != 0)
            die("player", -rc);
    }
    for (unsigned i = 0; i < opt.threads; i++) {
        pthread_join(players[i].thread, NULL);
        free(players[i].procs);
    }
    free(players);
}

static void print_info(struct kymo_recorder *rec)
{
    struct kymo_info info;

    kymo_recorder_info(rec, &info);
    printf("events %llu overwritten %llu lost %llu\n", (unsigned long long)info.events,
           (unsigned long long)info.overwritten, (unsigned long long)info.lost[KYMO_LOST_RING_FULL]);
}

int main(int argc, char **argv)
{
    struct kymo_recorder *rec;
    struct kymo_open_error why;
    struct kymo_info info;
    int rc;

    kymo_options_init(&opt.rec);
    opt.rec.policy = KYMO_DISCARD;
    opt.rec.file_bytes = 0;
    parse(argc, argv);
    opt.rec.dir = opt.dir;
    opt.rec.n_slots = opt.threads + 1;
    opt.rec.node = "synthetic@localhost";
    opt.rec.otp_release = "0";
    opt.rec.erts_version = "0.0";
    opt.rec.detail |= opt.content_pct > 0 ? KYMO_D_ARGS | KYMO_D_RETURNS | KYMO_D_MSG | KYMO_D_TERMS : 0;
    opt.rec.identify = thread_is;
    rc = kymo_recorder_open(&opt.rec, &rec, &why);
    if (rc != 0)
        die(why.option != NULL ? why.option : opt.dir, rc);
    kymo_recorder_info(rec, &info);
    opt.share = info.n_segments / (2 * opt.threads);
    play_all(rec);
    if (opt.snapshot != NULL) {
        uint64_t segments, events;

        rc = kymo_recorder_snapshot(rec, opt.snapshot, &segments, &events);
        if (rc != 0)
            die(opt.snapshot, rc);
        printf("snapshot segments %llu events %llu\n", (unsigned long long)segments,
               (unsigned long long)events);
    }
    if (opt.crash) {
        print_info(rec);
        fflush(stdout);
        _exit(0);
    }
    (void)kymo_recorder_stop(rec, KYMO_R_STOP);
    print_info(rec);
    kymo_recorder_close(rec);
    return 0;
}
