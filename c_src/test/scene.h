/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of the analysis: handmade recordings, and the facts that the analysis reports
 * for them. For test files only. Single-threaded.
 */
#ifndef SCENE_H
#define SCENE_H

#include "kymo_analysis.h"
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)
#define START 2000000u /* of the segments */

enum { FACTS = 64 };

/* The records of two threads, and the facts that result from them. */
struct scene {
    struct testrec t;
    struct testseg s[2];
    uint32_t a, b, handle_call;
    struct kymo_span span[FACTS];
    struct kymo_mail mail[FACTS];
    struct kymo_request request[FACTS];
    struct kymo_run run[FACTS];
    struct kymo_collection collection[FACTS];
    struct kymo_life life[FACTS];
    size_t spans, mails, requests, runs, collections, lives;
    struct kymo_analysis_result res;
    struct kymo_reader *r;
};

static inline void open_scene(struct scene *x)
{
    memset(x, 0, sizeof *x);
    tr_init(&x->t);
    uint32_t m = tr_atom(&x->t, "m");
    x->a = tr_mfa(&x->t, m, tr_atom(&x->t, "a"), 0);
    x->b = tr_mfa(&x->t, m, tr_atom(&x->t, "b"), 1);
    x->handle_call = tr_mfa(&x->t, m, tr_atom(&x->t, "handle_call"), 3);
    for (uint32_t i = 0; i < 2; i++) {
        x->t.slots[i].used = 1;
        x->t.slots[i].thread_kind = KYMO_T_SCHEDULER;
        x->t.slots[i].thread_no = i + 1;
        ts_open(&x->s[i], &x->t, i, 1, START);
    }
}

/* Records of thread `slot` at START + at. */
static inline void wm(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who, uint32_t mfa)
{
    ts_wm(&x->s[slot], START + at, id, who, mfa);
}

static inline void message(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who,
                           uint64_t peer, uint8_t kind, uint64_t ref)
{
    ts_message(&x->s[slot], START + at, id, who, peer, kind, ref);
}

/* A message of 5 words with a number; kind as in message(). */
static inline void numbered(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who,
                            uint64_t peer, uint64_t number, uint8_t kind, uint64_t ref)
{
    uint8_t body[37];
    uint32_t size = 5;
    bool seen = kind != KYMO_MSG_PLAIN;
    size_t n = seen ? 29 : 20;
    memcpy(body, &who, 8);
    memcpy(body + 8, &peer, 8);
    memcpy(body + 16, &size, 4);
    body[20] = kind;
    memcpy(body + 21, &ref, 8);
    memcpy(body + n, &number, 8);
    if (id == KYMO_E_SEND)
        id = seen ? KYMO_E_SEND_REF_NUMBERED : KYMO_E_SEND_NUMBERED;
    else
        id = seen ? KYMO_E_RECEIVE_REF_NUMBERED : KYMO_E_RECEIVE_NUMBERED;
    ts_record(&x->s[slot], START + at, id, body, n + 8, false);
}

static inline void taken(struct scene *x, uint32_t slot, uint64_t at, uint64_t who, uint64_t number,
                         uint32_t passed)
{
    uint8_t body[20];
    memcpy(body, &who, 8);
    memcpy(body + 8, &number, 8);
    memcpy(body + 16, &passed, 4);
    ts_record(&x->s[slot], START + at, KYMO_E_TAKEN, body, sizeof body, false);
}

/* `in` of a process that was in the run queue for ns. */
static inline void in_from_queue(struct scene *x, uint32_t slot, uint64_t at, uint64_t who, uint32_t mfa,
                                 uint8_t by, uint64_t ns)
{
    uint8_t body[21];
    memcpy(body, &who, 8);
    memcpy(body + 8, &mfa, 4);
    body[12] = by;
    memcpy(body + 13, &ns, 8);
    ts_record(&x->s[slot], START + at, KYMO_E_IN_RUNNABLE, body, sizeof body, false);
}

static inline void out_for(struct scene *x, uint32_t slot, uint64_t at, uint64_t who, uint32_t mfa,
                           uint8_t reason)
{
    uint8_t body[13];
    memcpy(body, &who, 8);
    memcpy(body + 8, &mfa, 4);
    body[12] = reason;
    ts_record(&x->s[slot], START + at, KYMO_E_OUT_REASON, body, sizeof body, false);
}

static inline void gc(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who)
{
    uint8_t body[9] = {0};
    memcpy(body, &who, 8);
    ts_record(&x->s[slot], START + at, id, body, sizeof body, false);
}

static inline void atom(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who, uint32_t name)
{
    wm(x, slot, at, id, who, name); /* the same fields with other letters */
}

static inline void spawned(struct scene *x, uint32_t slot, uint64_t at, uint64_t who, uint64_t parent,
                           uint32_t mfa)
{
    uint8_t body[20];
    memcpy(body, &who, 8);
    memcpy(body + 8, &parent, 8);
    memcpy(body + 16, &mfa, 4);
    ts_record(&x->s[slot], START + at, KYMO_E_SPAWNED, body, sizeof body, false);
}

/* ---- facts ---- */

#define KEEP(name, type, array, count) \
    static inline void name(void *arg, const type *fact) \
    { \
        struct scene *x = arg; \
        assert_true(x->count < FACTS); \
        x->array[x->count++] = *fact; \
    }
KEEP(keep_span, struct kymo_span, span, spans)
KEEP(keep_mail, struct kymo_mail, mail, mails)
KEEP(keep_request, struct kymo_request, request, requests)
KEEP(keep_run, struct kymo_run, run, runs)
KEEP(keep_collection, struct kymo_collection, collection, collections)
KEEP(keep_life, struct kymo_life, life, lives)

static inline struct kymo_analysis_sink sink_of(struct scene *x)
{
    return (struct kymo_analysis_sink){.arg = x,
                                       .span = keep_span,
                                       .mail = keep_mail,
                                       .request = keep_request,
                                       .run = keep_run,
                                       .collection = keep_collection,
                                       .life = keep_life};
}

static inline void open_recording(struct scene *x)
{
    for (uint32_t i = 0; i < 2; i++) {
        ts_close(&x->s[i], true);
        tr_to_ring(&x->t, &x->s[i]);
    }
    x->r = open_it(&x->t);
}

static inline void analyse(struct scene *x)
{
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = sink_of(x);
    char err[256] = "";
    open_recording(x);
    assert_int_equal(kymo_analyse(x->r, &o, &sink, 1, &x->res, err, sizeof err), 0);
}

static inline void close_scene(struct scene *x)
{
    kymo_reader_close(x->r);
    tr_free(&x->t);
}

#endif
