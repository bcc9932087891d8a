/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_int.h"

#include <stdlib.h>
#include <string.h>

enum { OP_NONE = 0, OP_RETURN_FROM = 1, OP_RETURN_TO = 2 };

/* Limits of other searches. */
enum { LOOP_MAX = 1024, INFERRED_RUN_MAX = 32, CYCLE_MAX = 8 };

void kymo_facts_init(struct kymo_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    kymo_map_init(&facts->returns, sizeof(uint32_t));
    kymo_map_init(&facts->pairs, sizeof(struct kymo_pair));
}

void kymo_facts_free(struct kymo_facts *facts)
{
    kymo_map_free(&facts->returns);
    kymo_map_free(&facts->pairs);
}

bool kymo_facts_copy(struct kymo_facts *to, const struct kymo_facts *facts)
{
    kymo_facts_init(to);
    to->return_to_seen = facts->return_to_seen;
    return kymo_map_copy(&to->returns, &facts->returns) && kymo_map_copy(&to->pairs, &facts->pairs);
}

void kymo_facts_returns(struct kymo_facts *facts, uint32_t mfa)
{
    uint32_t *seen = kymo_map_put(&facts->returns, mfa, NULL);
    if (seen != NULL)
        *seen = 1;
}

void kymo_stack_free(struct kymo_stack *st)
{
    free(st->f);
    memset(st, 0, sizeof *st);
}

/* ---- pairs of caller and callee ---- */

static uint64_t pair_key(uint32_t caller, uint32_t callee)
{
    return (uint64_t)caller << 32 | callee;
}

static struct kymo_pair pair_get(const struct kymo_facts *facts, uint32_t caller, uint32_t callee)
{
    const struct kymo_pair *p = kymo_map_get(&facts->pairs, pair_key(caller, callee));
    return p != NULL ? *p : (struct kymo_pair){0, 0};
}

static void learn(const struct kymo_stack *st, struct kymo_facts *facts, uint32_t caller, uint32_t callee,
                  bool kept)
{
    if (st->doubtful || caller == 0 || callee == 0)
        return;
    uint64_t key = pair_key(caller, callee);
    struct kymo_pair *p = kymo_map_get(&facts->pairs, key);
    if (p == NULL && facts->pairs.count < KYMO_PAIRS_MAX)
        p = kymo_map_put(&facts->pairs, key, NULL);
    if (p == NULL)
        return;
    if (kept && p->kept < UINT32_MAX)
        p->kept++;
    else if (!kept && p->tail < UINT32_MAX)
        p->tail++;
}

/* ---- frames ---- */

struct kymo_frame *kymo_stack_push(struct kymo_stack *st, uint8_t kind, uint32_t mfa)
{
    if (st->n == st->room) {
        uint32_t room = st->room == 0 ? 8 : st->room * 2;
        struct kymo_frame *f = realloc(st->f, room * sizeof *f);
        if (f == NULL)
            return NULL;
        st->f = f;
        st->room = room;
    }
    struct kymo_frame *f = &st->f[st->n++];
    memset(f, 0, sizeof *f);
    f->mfa = mfa;
    f->kind = kind;
    f->words = KYMO_DEPTH_UNKNOWN;
    f->depth = st->shown;
    st->shown += kind != KYMO_FRAME_INFERRED;
    st->calls += kind == KYMO_FRAME_CALL;
    return f;
}

void kymo_stack_pop(struct kymo_stack *st, kymo_leave_fn leave, void *arg, enum kymo_leave why)
{
    struct kymo_frame *f = &st->f[--st->n];
    if (f->kind != KYMO_FRAME_INFERRED) {
        st->shown--;
        st->calls -= f->kind == KYMO_FRAME_CALL;
        if (leave != NULL)
            leave(arg, f, why);
    }
    if (st->calls == 0)
        st->doubtful = false;
}

static void pop_to(struct kymo_stack *st, uint32_t n, kymo_leave_fn leave, void *arg, enum kymo_leave why)
{
    while (st->n > n)
        kymo_stack_pop(st, leave, arg, why);
}

void kymo_stack_end_gc(struct kymo_stack *st, kymo_leave_fn leave, void *arg)
{
    while (st->n > 0 && st->f[st->n - 1].kind >= KYMO_FRAME_GC_MINOR)
        kymo_stack_pop(st, leave, arg, KYMO_LEAVE_LOST);
}

static void infer(struct kymo_stack *st, uint32_t mfa, uint32_t above)
{
    if (mfa == 0)
        return;
    uint32_t run = 0;
    while (run < INFERRED_RUN_MAX && run < st->n && st->f[st->n - 1 - run].kind == KYMO_FRAME_INFERRED)
        run++;
    struct kymo_frame *f;
    if (run == INFERRED_RUN_MAX) {
        f = &st->f[st->n - 1];
        f->mfa = mfa;
    } else {
        f = kymo_stack_push(st, KYMO_FRAME_INFERRED, mfa);
    }
    if (f != NULL)
        f->above = above;
}

/* The lowest index that a search downwards from `end` visits. */
static uint32_t search_end(uint32_t end, uint32_t most)
{
    return end > most ? end - most : 0;
}

/* Index of the topmost call below `end`, or UINT32_MAX. */
static uint32_t top_call(const struct kymo_stack *st, uint32_t end)
{
    for (uint32_t i = end; i-- > 0;) {
        if (st->f[i].kind == KYMO_FRAME_CALL)
            return i;
    }
    return UINT32_MAX;
}

/* Index of the topmost frame of mfa below `end`, called or inferred. */
static uint32_t find(const struct kymo_stack *st, uint32_t end, uint32_t mfa)
{
    if (mfa != 0) {
        for (uint32_t i = end, low = search_end(end, KYMO_SEARCH_MAX); i-- > low;) {
            if (st->f[i].mfa == mfa && st->f[i].kind <= KYMO_FRAME_INFERRED)
                return i;
        }
    }
    return UINT32_MAX;
}

/* ---- calls ---- */

/* Called for a new call of mfa: if a chain of tail calls leads from an earlier call of mfa to
 * this one, ends the frames of that chain. A chain consists of callers that are known to have
 * been replaced by their callee. A stack that has grown to KYMO_STACK_LOOP calls while mfa never
 * returned is assumed to be such a chain, as far as nothing is known to the contrary. */
static void end_loop(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, kymo_leave_fn leave,
                     void *arg)
{
    bool deep = st->calls >= KYMO_STACK_LOOP && kymo_map_get(&facts->returns, mfa) == NULL;
    uint32_t callee = mfa, start = st->n;
    for (uint32_t i = st->n, low = search_end(i, LOOP_MAX); i-- > low && st->f[i].kind == KYMO_FRAME_CALL;) {
        struct kymo_pair p = pair_get(facts, st->f[i].mfa, callee);
        bool unknown = p.kept == 0 && p.tail == 0;
        if (unknown ? !deep : p.kept >= p.tail)
            break;
        callee = st->f[i].mfa;
        if (callee == mfa) {
            start = i;
            if (!deep)
                break;
        }
    }
    if (deep) {
        for (uint32_t i = start; i < st->n; i++)
            learn(st, facts, st->f[i].mfa, i + 1 < st->n ? st->f[i + 1].mfa : mfa, false);
    }
    pop_to(st, start, leave, arg, KYMO_LEAVE_TAIL);
}

struct kymo_frame *kymo_stack_call(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                                   uint32_t words, kymo_leave_fn leave, void *arg)
{
    kymo_stack_end_gc(st, leave, arg);
    st->last_op = OP_NONE;
    if (words != KYMO_DEPTH_UNKNOWN)
        return kymo_stack_call_at(st, facts, mfa, words, leave, arg);
    if (!facts->return_to_seen && kymo_map_get(&facts->returns, mfa) == NULL)
        return NULL;
    if (facts->return_to_seen && st->n > 0)
        end_loop(st, facts, mfa, leave, arg);
    if (st->calls >= KYMO_STACK_MAX) {
        st->beyond++;
        return NULL;
    }
    return kymo_stack_push(st, KYMO_FRAME_CALL, mfa);
}

/* ---- returns ---- */

/* After `callee` has ended and its caller is unknown: ends the calls below it that have
 * probably ended with tail calls. If nothing is known about a call, it is assumed to have
 * ended; if that is wrong, its own return, which is still to come, shows it. */
static void cut(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t callee, kymo_leave_fn leave,
                void *arg)
{
    struct kymo_guess g = {.mfa = {callee}, .n = 1};
    bool guessed = false, learning = !st->doubtful;
    while (st->n > 0 && st->f[st->n - 1].kind == KYMO_FRAME_CALL) {
        uint32_t caller = st->f[st->n - 1].mfa;
        struct kymo_pair p = pair_get(facts, caller, callee);
        bool unknown = p.kept == 0 && p.tail == 0;
        if (!unknown && p.tail <= p.kept)
            break;
        guessed = guessed || unknown;
        if (g.n < KYMO_GUESS_CALLS)
            g.mfa[g.n++] = caller;
        kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN_TO);
        callee = caller;
    }
    if (guessed && learning) {
        g.left = st->n;
        if (st->n_guesses == KYMO_GUESSES)
            memmove(st->guesses, st->guesses + 1, --st->n_guesses * sizeof g);
        st->guesses[st->n_guesses++] = g;
    }
}

/* Index of mfa among the callers of a guess, or 0. */
static uint32_t caller_in(const struct kymo_guess *g, uint32_t mfa)
{
    for (uint32_t i = 1; i < g->n; i++) {
        if (g->mfa[i] == mfa)
            return i;
    }
    return 0;
}

/* Index of the lowest caller about which nothing is known, or 0. */
static uint32_t unknown_in(const struct kymo_guess *g, const struct kymo_facts *facts)
{
    for (uint32_t i = g->n; i-- > 1;) {
        struct kymo_pair p = pair_get(facts, g->mfa[i], g->mfa[i - 1]);
        if (p.kept == 0 && p.tail == 0)
            return i;
    }
    return 0;
}

/* A return to mfa shows that a guess was wrong: learns which of the calls that it ended was
 * still on the stack. This is the call that mfa had made, or, if mfa is in no guess, the lowest
 * call about which nothing is known. Frames inferred since that guess ran above this call, so
 * they are removed. */
static void learn_wrong_guess(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                              kymo_leave_fn leave, void *arg)
{
    uint32_t wrong = st->n_guesses, i = 0;
    while (i == 0 && wrong > 0)
        i = caller_in(&st->guesses[--wrong], mfa);
    if (i > 1)
        learn(st, facts, mfa, st->guesses[wrong].mfa[--i], true);
    if (i == 0) {
        wrong = st->n_guesses;
        while (i == 0 && wrong > 0)
            i = unknown_in(&st->guesses[--wrong], facts);
    }
    if (i == 0)
        return;
    const struct kymo_guess *g = &st->guesses[wrong];
    learn(st, facts, g->mfa[i], g->mfa[i - 1], true);
    uint32_t j = top_call(st, st->n);
    if (j == UINT32_MAX || j < g->left)
        pop_to(st, g->left, leave, arg, KYMO_LEAVE_RETURN_TO);
    st->n_guesses = wrong;
}

/* The call at index j has ended and the frame at index k < j runs again. */
static void learn_return(const struct kymo_stack *st, struct kymo_facts *facts, uint32_t k, uint32_t j)
{
    for (uint32_t i = k; i < j; i++) {
        const struct kymo_frame *below = &st->f[i], *above = &st->f[i + 1];
        if (below->kind == KYMO_FRAME_CALL && above->kind == KYMO_FRAME_CALL)
            learn(st, facts, below->mfa, above->mfa, i == k);
        else if (below->kind == KYMO_FRAME_CALL && above->kind == KYMO_FRAME_INFERRED && i == k)
            learn(st, facts, below->mfa, above->above, true);
    }
    /* Only inferred frames are above: keeping the call was right. */
    if (j + 1 < st->n && st->f[j + 1].kind == KYMO_FRAME_INFERRED)
        learn(st, facts, st->f[j].mfa, st->f[j + 1].above, true);
}

/* return_to directly after return_from, which has already ended the call. */
static void return_to_after_from(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t mfa,
                                 kymo_leave_fn leave, void *arg)
{
    uint32_t k = find(st, st->n, mfa);
    if (k != UINT32_MAX) {
        pop_to(st, k + 1, leave, arg, KYMO_LEAVE_RETURN_TO);
    } else {
        cut(st, facts, st->last, leave, arg);
        infer(st, mfa, st->last);
    }
}

static void return_to_nothing_open(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                                   kymo_leave_fn leave, void *arg)
{
    /* No call is open that could return: a guess was wrong. */
    learn_wrong_guess(st, facts, mfa, leave, arg);
    uint32_t k = find(st, st->n, mfa);
    if (k != UINT32_MAX) {
        pop_to(st, k + 1, leave, arg, KYMO_LEAVE_RETURN_TO);
    } else {
        /* The running function has returned; its call was not recorded. */
        if (st->n > 0)
            kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN_TO);
        infer(st, mfa, 0);
    }
}

static void return_to_open(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, uint32_t j,
                           kymo_leave_fn leave, void *arg)
{
    uint32_t k = find(st, j, mfa);
    uint32_t ended = st->f[j].mfa;
    bool wrong = st->n_guesses > 0 && st->guesses[st->n_guesses - 1].left == j + 1;
    if (ended == mfa && j + 1 < st->n && (wrong || k == UINT32_MAX)) {
        /* A call above it, which was ended by a guess, has returned to the open call. */
        if (wrong)
            learn_wrong_guess(st, facts, mfa, leave, arg);
        pop_to(st, j + 1, leave, arg, KYMO_LEAVE_RETURN_TO);
        return;
    }
    st->last = ended;
    st->last_op = OP_RETURN_TO;
    if (k != UINT32_MAX) {
        learn_return(st, facts, k, j);
        pop_to(st, k + 1, leave, arg, KYMO_LEAVE_RETURN_TO);
        return;
    }
    /* The function has returned to a call of itself that is not on the stack. */
    if (ended == mfa)
        learn(st, facts, mfa, mfa, true);
    if (j + 1 < st->n)
        learn(st, facts, ended, st->f[j + 1].above, true);
    if (mfa == 0) {
        /* Returned to the bottom of the stack: each call had been replaced by the next. */
        for (uint32_t i = 0; i < j; i++) {
            if (st->f[i].kind == KYMO_FRAME_CALL && st->f[i + 1].kind == KYMO_FRAME_CALL)
                learn(st, facts, st->f[i].mfa, st->f[i + 1].mfa, false);
        }
        pop_to(st, 0, leave, arg, KYMO_LEAVE_RETURN_TO);
    } else {
        pop_to(st, j, leave, arg, KYMO_LEAVE_RETURN_TO);
        cut(st, facts, ended, leave, arg);
        infer(st, mfa, ended);
    }
}

void kymo_stack_return_to(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, uint32_t words,
                          kymo_leave_fn leave, void *arg)
{
    facts->return_to_seen = true;
    kymo_stack_end_gc(st, leave, arg);
    if (words != KYMO_DEPTH_UNKNOWN) {
        st->last_op = OP_NONE;
        kymo_stack_end_above(st, words, leave, arg);
        return;
    }
    if (st->beyond > 0) {
        st->beyond--;
        return;
    }
    uint8_t op = st->last_op;
    st->last_op = OP_NONE;
    uint32_t j = top_call(st, st->n);
    if (op == OP_RETURN_FROM)
        return_to_after_from(st, facts, mfa, leave, arg);
    else if (j == UINT32_MAX)
        return_to_nothing_open(st, facts, mfa, leave, arg);
    else
        return_to_open(st, facts, mfa, j, leave, arg);
}

bool kymo_stack_return_from(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, uint32_t words,
                            kymo_leave_fn leave, void *arg)
{
    kymo_facts_returns(facts, mfa);
    kymo_stack_end_gc(st, leave, arg);
    if (words != KYMO_DEPTH_UNKNOWN) {
        st->last_op = OP_NONE;
        return kymo_stack_return_from_at(st, facts, mfa, words, leave, arg);
    }
    if (st->beyond > 0) {
        st->beyond--;
        return false;
    }
    /* The return_to of the same return came first and has ended the call. */
    if (st->last_op == OP_RETURN_TO && st->last == mfa) {
        st->last_op = OP_NONE;
        return false;
    }
    st->last_op = OP_RETURN_FROM;
    st->last = mfa;
    for (uint32_t i = st->n, low = search_end(i, KYMO_SEARCH_MAX); i-- > low;) {
        if (st->f[i].kind == KYMO_FRAME_CALL && st->f[i].mfa == mfa) {
            pop_to(st, i + 1, leave, arg, KYMO_LEAVE_RETURN_TO);
            kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN);
            return true;
        }
    }
    return false;
}

/* ---- garbage collection, loss, end ---- */

struct kymo_frame *kymo_stack_gc_start(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg)
{
    kymo_stack_end_gc(st, leave, arg);
    return kymo_stack_push(st, kind, 0);
}

bool kymo_stack_gc_end(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg)
{
    if (st->n == 0 || st->f[st->n - 1].kind != kind)
        return false;
    kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN);
    return true;
}

void kymo_stack_learn_end(const struct kymo_stack *st, struct kymo_facts *facts)
{
    for (uint32_t i = search_end(st->n, LOOP_MAX); i + 1 < st->n; i++) {
        const struct kymo_frame *f = &st->f[i], *g = &st->f[i + 1];
        if (f->kind != KYMO_FRAME_CALL || g->kind != KYMO_FRAME_CALL)
            continue;
        /* Repeated: the same pair of caller and callee is found a few frames further up. */
        bool again = false;
        for (uint32_t j = i + 1; j + 1 < st->n && j <= i + CYCLE_MAX && !again; j++)
            again = st->f[j].mfa == f->mfa && st->f[j + 1].mfa == g->mfa;
        if (again && pair_get(facts, f->mfa, g->mfa).kept == 0)
            learn(st, facts, f->mfa, g->mfa, false);
    }
}

void kymo_stack_lost(struct kymo_stack *st, uint64_t epoch)
{
    if (st->loss_epoch == epoch)
        return;
    st->loss_epoch = epoch;
    st->doubtful = st->n > 0;
    st->last_op = OP_NONE;
    st->n_guesses = 0;
}

void kymo_stack_hibernate(struct kymo_stack *st, kymo_leave_fn leave, void *arg)
{
    pop_to(st, 0, leave, arg, KYMO_LEAVE_HIBERNATE);
    st->beyond = 0;
    st->n_guesses = 0;
    st->last_op = OP_NONE;
}

void kymo_stack_clear(struct kymo_stack *st, kymo_leave_fn leave, void *arg)
{
    pop_to(st, 0, leave, arg, KYMO_LEAVE_END);
    kymo_stack_free(st);
}
