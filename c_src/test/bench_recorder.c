/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the time that recording an event takes in its thread. Each kind of event is measured in
 * short rounds that alternate with an empty loop, so that other load slows both. Prints the median and
 * the minimum of the rounds.
 *
 *   bench_recorder [--dir DIR] [--rounds N] [--batch N] [--segs N]
 *   bench_recorder --only NAME --once    one batch of one kind: for callgrind
 *       (valgrind --tool=callgrind --toggle-collect=run_NAME ...)
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kymo_writer.h"

#define N_FUNCTIONS 64u
#define N_DEPTHS 64u

static struct kymo_recorder *overwrite, *discard, *mono, *fenced, *paused, *sampled;

/* Unpredictable words, as a tracer is passed. */
static uint64_t module_word(uint64_t i)
{
    return (i % N_FUNCTIONS) << 6 | 0xb;
}

static uint32_t mfa_of(struct kymo_writer *w, uint64_t i)
{
    uint64_t m = module_word(i), f = module_word(i) + 64;
    uint32_t id = kymo_dict_mfa(w, m, f, 2);

    if (id != 0)
        return id;
    return kymo_dict_mfa_add(w, m, f, 2, kymo_dict_atom_add(w, m, "module", 6),
                             kymo_dict_atom_add(w, f, "function", 8));
}

static inline void call(struct kymo_recorder *r, uint64_t i)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint32_t mfa;
    uint8_t *p;

    if (w == NULL)
        return;
    mfa = mfa_of(w, i);
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    if (p != NULL)
        kymo_commit(w, kymo_put32(kymo_put64(p, i), mfa));
    kymo_writer_put(w);
}

static inline void call_at_once(struct kymo_recorder *r, uint64_t i)
{
    if (!kymo_record_call(r, i, module_word(i), module_word(i) + 64, 2))
        call(r, i);
}

static inline void call_at_depth(struct kymo_recorder *r, uint64_t i)
{
    if (!kymo_record_call_at(r, i, module_word(i), module_word(i) + 64, 2, i % N_DEPTHS))
        call(r, i);
}

/* clang-format off */
#define KINDS(X) X(empty) X(call) X(call_at_once) X(call_at_depth) X(call_discard) X(call_mono) X(call_fenced) X(send) X(gc) X(content) X(paused) X(sampled) \
    X(clock_tsc) X(clock_mono)
/* clang-format on */

#define RUN(name, body) \
    __attribute__((noinline)) void run_##name(uint64_t n); \
    __attribute__((noinline)) void run_##name(uint64_t n) \
    { \
        for (uint64_t i = 0; i < n; i++) { \
            __asm__ volatile("" : "+r"(i) : : "memory"); \
            body \
        } \
    }

RUN(empty, )
RUN(call, call(overwrite, i);)
RUN(call_discard, call(discard, i);)
RUN(call_mono, call(mono, i);)
RUN(call_at_once, call_at_once(overwrite, i);)
RUN(call_at_depth, call_at_depth(overwrite, i);)
RUN(call_fenced, call(fenced, i);)
RUN(send, {
    struct kymo_writer *w = kymo_writer_get(overwrite);
    uint8_t *p = kymo_reserve(w, KYMO_E_SEND, 20);

    if (p != NULL)
        kymo_commit(w, kymo_put32(kymo_put64(kymo_put64(p, i), i + 1), 7));
    kymo_writer_put(w);
})
RUN(gc, {
    struct kymo_writer *w = kymo_writer_get(overwrite);
    uint8_t *p = kymo_reserve(w, KYMO_E_GC_MINOR_START, 9 + 8 * KYMO_GC_SIZES);

    if (p != NULL) {
        p = kymo_put8(kymo_put64(p, i), KYMO_GC_SIZES);
        for (unsigned k = 0; k < KYMO_GC_SIZES; k++)
            p = kymo_put64(p, i + k);
        kymo_commit(w, p);
    }
    kymo_writer_put(w);
})
RUN(content, {
    static const uint8_t term[64];
    struct kymo_writer *w = kymo_writer_get(overwrite);
    uint8_t *p = kymo_reserve(w, KYMO_E_SEND | KYMO_HAS_CONTENT, 20 + KYMO_CONTENT_HDR + 512);

    if (p != NULL) {
        p = kymo_put32(kymo_put64(kymo_put64(p, i), i + 1), 7);
        p = kymo_put16(kymo_put8(p, 0), sizeof term);
        memcpy(p, term, sizeof term);
        kymo_commit(w, p + sizeof term);
    }
    kymo_writer_put(w);
})
RUN(paused, {
    if (kymo_recorder_active(paused))
        call(paused, i);
})
RUN(sampled, {
    struct kymo_writer *w = kymo_writer_get(sampled);

    if (kymo_sample(w)) {
        uint8_t *p = kymo_reserve(w, KYMO_E_CALL, 12);

        if (p != NULL)
            kymo_commit(w, kymo_put32(kymo_put64(p, i), 1));
    }
    kymo_writer_put(w);
})
RUN(clock_tsc, { __asm__ volatile("" : : "r"(kymo_now(kymo_tls_current->e[0].writer))); })
RUN(clock_mono, { __asm__ volatile("" : : "r"(kymo_clock_mono())); })

static const struct {
    const char *name;
    void (*run)(uint64_t);
} kinds[] = {
#define X(name) {#name, run_##name},
    KINDS(X)
#undef X
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static const char *base = "/dev/shm";
static uint32_t segs = 64;

static struct kymo_recorder *open_one(const char *name, enum kymo_policy policy, enum kymo_clock clock,
                                      uint32_t sample)
{
    struct kymo_options o;
    struct kymo_recorder *r;
    struct kymo_open_error why;
    char dir[512];
    int rc;

    (void)snprintf(dir, sizeof dir, "%s/%s", base, name);
    kymo_options_init(&o);
    o.dir = dir;
    o.policy = policy;
    o.clock = clock;
    o.sample = sample;
    o.n_slots = 2;
    o.memory = (uint64_t)segs * 2 * 65536 + (12u << 20);
    o.segment_bytes = 65536;
    o.dict_bytes = 8u << 20;
    o.max_files = 2;
    rc = kymo_recorder_open(&o, &r, &why);
    if (rc != 0) {
        fprintf(stderr, "bench_recorder: %s: %s %s\n", dir, strerror(-rc),
                why.option != NULL ? why.option : "");
        exit(1);
    }
    return r;
}

static void close_one(struct kymo_recorder *r, const char *name, uint64_t *lost)
{
    struct kymo_info info;
    char cmd[600];

    (void)kymo_recorder_stop(r, KYMO_R_STOP);
    kymo_recorder_info(r, &info);
    if (lost != NULL)
        *lost = info.lost[KYMO_LOST_RING_FULL];
    kymo_recorder_close(r);
    (void)snprintf(cmd, sizeof cmd, "rm -r '%s/%s'", base, name);
    if (system(cmd) != 0)
        fprintf(stderr, "bench_recorder: %s/%s stays\n", base, name);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static double one(void (*run)(uint64_t), uint64_t n)
{
    uint64_t t = kymo_clock_mono();

    run(n);
    return (double)(kymo_clock_mono() - t) / (double)n;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"dir", 1, NULL, 'd'},  {"rounds", 1, NULL, 'r'}, {"batch", 1, NULL, 'b'}, {"only", 1, NULL, 'o'},
        {"once", 0, NULL, '1'}, {"segs", 1, NULL, 's'},   {NULL, 0, NULL, 0}};
    const char *only = NULL;
    uint64_t rounds = 101, batch = 20000, lost;
    char tmp[256];
    bool once = false;
    double *ns;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'd': base = optarg; break;
        case 'r': rounds = strtoull(optarg, NULL, 10) | 1; break;
        case 'b': batch = strtoull(optarg, NULL, 10) + 1; break;
        case 'o': only = optarg; break;
        case 's': segs = (uint32_t)strtoul(optarg, NULL, 10); break;
        case '1': once = true; break;
        default:
            fprintf(stderr, "usage: bench_recorder [--dir D] [--rounds N] [--batch N] [--segs N] [--only "
                            "NAME] [--once]\n");
            return 2;
        }
    }
    (void)snprintf(tmp, sizeof tmp, "%s/kymo-bench-XXXXXX", base);
    base = mkdtemp(tmp);
    if (base == NULL || (ns = calloc(2 * rounds, sizeof *ns)) == NULL) {
        perror("bench_recorder");
        return 1;
    }
    overwrite = open_one("overwrite", KYMO_OVERWRITE, KYMO_CLOCK_COUNTER, 1);
    discard = open_one("discard", KYMO_DISCARD, KYMO_CLOCK_COUNTER, 1);
    mono = open_one("mono", KYMO_OVERWRITE, KYMO_CLOCK_MONOTONIC, 1);
    paused = open_one("paused", KYMO_OVERWRITE, KYMO_CLOCK_COUNTER, 1);
    sampled = open_one("sampled", KYMO_OVERWRITE, KYMO_CLOCK_COUNTER, 100);
    (void)kymo_recorder_pause(paused);
    /* As on a kernel without membarrier(2). There are no producers yet. */
    fenced = open_one("fenced", KYMO_OVERWRITE, KYMO_CLOCK_COUNTER, 1);
    ((struct kymo_recorder_head *)(void *)fenced)->fenced = 1;
    if (!once)
        printf("%-14s %10s %10s %10s %8s\n", "event", "ns", "least ns", "empty ns", "ratio");
    for (size_t k = 0; k < N_KINDS; k++) {
        double event, empty;

        if (only != NULL && strcmp(only, kinds[k].name) != 0)
            continue;
        if (once) {
            kinds[k].run(batch);
            continue;
        }
        kinds[k].run(batch);
        for (uint64_t i = 0; i < rounds; i++) {
            ns[i] = one(run_empty, batch);
            ns[rounds + i] = one(kinds[k].run, batch);
        }
        empty = median(ns, rounds);
        event = median(ns + rounds, rounds);
        printf("%-14s %10.2f %10.2f %10.2f %8.1f\n", kinds[k].name, event, ns[rounds], empty, event / empty);
    }
    close_one(overwrite, "overwrite", NULL);
    close_one(discard, "discard", &lost);
    close_one(mono, "mono", NULL);
    close_one(paused, "paused", NULL);
    close_one(fenced, "fenced", NULL);
    close_one(sampled, "sampled", NULL);
    free(ns);
    (void)rmdir(base);
    if (!once)
        printf("lost by the discard recorder: %llu\n", (unsigned long long)lost);
    return 0;
}
