/* SPDX-License-Identifier: Apache-2.0 */
#include "export_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVERY = 1 << 17 };

int kymo_feed_error(int error, char *err, size_t err_size)
{
    snprintf(err, err_size, "can't read the recording further: %s", strerror(-error));
    return error;
}

int kymo_feed_start(struct kymo_feed *f, struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size)
{
    memset(f, 0, sizeof *f);
    memset(res, 0, sizeof *res);
    f->r = r;
    f->o = o;
    f->res = res;
    f->jumps = kymo_reader_jumps(r);
    f->t0 = (uint64_t)kymo_reader_meta(r)->t0_mono_ns;
    kymo_reader_show_all(r, o->all);
    int rc = kymo_reader_rewind(r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

static void progress(struct kymo_feed *f)
{
    f->since_progress = 0;
    if (f->o->progress != NULL) {
        uint64_t done, total;
        kymo_reader_progress(f->r, &done, &total);
        f->o->progress(f->o->progress_arg, done, total);
    }
}

int kymo_feed_next(struct kymo_feed *f, struct kymo_event *ev)
{
    int rc;
    while ((rc = kymo_reader_next(f->r, ev)) == 1) {
        if (++f->since_progress == PROGRESS_EVERY)
            progress(f);
        if (ev->incomplete && !f->o->all)
            return 1;                                        /* see kymo_feed_older */
        int64_t since = (int64_t)((uint64_t)ev->ns - f->t0); /* a damaged clock wraps */
        if (since > f->o->to_ns && f->jumps == 0)
            return 0;
        if (since < f->o->from_ns || since > f->o->to_ns)
            continue;
        if (ev->id >= KYMO_E_FIRST_NOTE)
            return 1;
        if (f->o->keep != NULL && !f->o->keep(f->o->keep_arg, f->r, ev))
            continue;
        f->res->events++;
        return 1;
    }
    if (rc == 0)
        progress(f);
    return rc;
}

int kymo_feed_older(struct kymo_feed *f, char *err, size_t err_size)
{
    kymo_reader_show_all(f->r, true);
    int rc = kymo_reader_rewind(f->r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

/* ---- lesson ---- */

static void end_stacks(struct kymo_lesson *l, struct kymo_map *stacks, const struct kymo_reader *r)
{
    size_t it = 0;
    for (struct kymo_stack *st; (st = kymo_map_next(stacks, &it, NULL)) != NULL;) {
        kymo_stack_lost(st, kymo_reader_loss_epoch(r));
        kymo_stack_learn_end(st, &l->facts);
        kymo_stack_clear(st, NULL, NULL);
    }
    kymo_map_free(stacks);
}

static bool learn_event(struct kymo_lesson *l, struct kymo_map *stacks, const struct kymo_reader *r,
                        const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_IN || ev->id == KYMO_E_OUT)
        l->running = true;
    if (ev->id == KYMO_E_EXIT) {
        struct kymo_stack *st = kymo_map_get(stacks, ev->who);
        if (st != NULL) {
            kymo_stack_lost(st, kymo_reader_loss_epoch(r));
            kymo_stack_learn_end(st, &l->facts);
            kymo_stack_clear(st, NULL, NULL);
            kymo_map_remove(stacks, ev->who);
        }
        return true;
    }
    if (kymo_hibernates(r, ev)) {
        struct kymo_stack *st = kymo_map_get(stacks, ev->who);
        if (st != NULL)
            kymo_stack_hibernate(st, NULL, NULL);
    }
    if (ev->id < KYMO_E_CALL || ev->id > KYMO_E_EXCEPTION_FROM)
        return true;
    if (stacks->count >= KYMO_RESIDENTS && kymo_map_get(stacks, ev->who) == NULL)
        end_stacks(l, stacks, r);
    struct kymo_stack *st = kymo_map_put(stacks, ev->who, NULL);
    if (st == NULL)
        return false;
    kymo_stack_lost(st, kymo_reader_loss_epoch(r));
    uint32_t mfa = kymo_canonical(r, ev->mfa);
    if (ev->id == KYMO_E_CALL) {
        kymo_stack_call(st, &l->facts, mfa, NULL, NULL);
    } else if (ev->id == KYMO_E_RETURN_TO) {
        kymo_stack_return_to(st, &l->facts, mfa, NULL, NULL);
    } else {
        kymo_stack_return_from(st, &l->facts, mfa, NULL, NULL);
    }
    return true;
}

int kymo_feed_lesson(struct kymo_feed *f, struct kymo_lesson *lesson, char *err, size_t err_size)
{
    struct kymo_export_result ignored;
    struct kymo_export_options quiet = *f->o;
    quiet.progress = NULL;
    struct kymo_feed feed = *f;
    feed.o = &quiet;
    feed.res = &ignored;
    memset(&ignored, 0, sizeof ignored);
    memset(lesson, 0, sizeof *lesson);
    kymo_facts_init(&lesson->facts);
    struct kymo_map stacks;
    kymo_map_init(&stacks, sizeof(struct kymo_stack));
    struct kymo_event ev;
    int rc = 0;
    bool return_to = false;
    kymo_reader_show_all(f->r, false);
    rc = kymo_reader_rewind(f->r);
    /* Frames open from the start, in case that a return_to comes later. */
    lesson->facts.return_to_seen = true;
    for (uint32_t i = 0; rc >= 0 && i < KYMO_LESSON_EVENTS && (rc = kymo_feed_next(&feed, &ev)) == 1; i++) {
        return_to = return_to || ev.id == KYMO_E_RETURN_TO;
        if (!learn_event(lesson, &stacks, f->r, &ev)) {
            rc = -ENOMEM;
            break;
        }
    }
    lesson->facts.return_to_seen = return_to;
    end_stacks(lesson, &stacks, f->r);
    kymo_reader_show_all(f->r, f->o->all);
    if (rc >= 0)
        rc = kymo_reader_rewind(f->r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

static bool is_text(struct kymo_text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.s, s, t.len) == 0;
}

bool kymo_hibernates(const struct kymo_reader *r, const struct kymo_event *ev)
{
    struct kymo_mfa mfa;
    return ev->id == KYMO_E_OUT && kymo_reader_mfa(r, ev->mfa, &mfa) && mfa.arity == 3 &&
           is_text(kymo_reader_atom(r, mfa.function), "hibernate") &&
           is_text(kymo_reader_atom(r, mfa.module), "erlang");
}

/* ---- residents ---- */

int kymo_residents_init(struct kymo_residents *r)
{
    memset(r, 0, sizeof *r);
    r->ident = malloc(KYMO_RESIDENTS * sizeof *r->ident);
    r->recent = calloc(KYMO_RESIDENTS, 1);
    return r->ident != NULL && r->recent != NULL ? 0 : -ENOMEM;
}

void kymo_residents_free(struct kymo_residents *r)
{
    free(r->ident);
    free(r->recent);
    memset(r, 0, sizeof *r);
}

uint32_t kymo_residents_add(struct kymo_residents *r, uint64_t ident, uint64_t *evicted)
{
    uint32_t place = r->n;
    *evicted = KYMO_IDENT_NONE;
    if (r->n < KYMO_RESIDENTS) {
        r->n++;
    } else {
        /* Ends: a place that was recent is not when the hand comes again. */
        while (r->ident[r->hand] != KYMO_IDENT_NONE && r->recent[r->hand] != 0) {
            r->recent[r->hand] = 0;
            r->hand = (r->hand + 1) % KYMO_RESIDENTS;
        }
        place = r->hand;
        r->hand = (r->hand + 1) % KYMO_RESIDENTS;
        *evicted = r->ident[place];
    }
    r->ident[place] = ident;
    r->recent[place] = 1;
    return place;
}

void kymo_residents_remove(struct kymo_residents *r, uint32_t place)
{
    r->ident[place] = KYMO_IDENT_NONE;
}

/* ---- names ---- */

/* Brings what a formatting function returned below size. */
static size_t cut_length(size_t n, size_t size)
{
    return n < size ? n : size - 1;
}

/* The name or the initial call of a process; 0 when neither is known. */
static size_t known_name(const struct kymo_reader *r, uint64_t ident, uint32_t spawned, char *buf,
                         size_t size)
{
    uint32_t name = 0, mfa = 0;
    (void)kymo_reader_process(r, ident, &name, &mfa);
    mfa = mfa != 0 ? mfa : spawned;
    if (name != 0)
        return cut_length(kymo_format_atom(kymo_reader_atom(r, name), buf, size), size);
    return mfa != 0 ? cut_length(kymo_format_mfa(r, mfa, buf, size), size) : 0;
}

size_t kymo_label(const struct kymo_reader *r, uint64_t ident, uint32_t spawned, char *buf, size_t size)
{
    size_t n = cut_length(kymo_format_ident(r, ident, buf, size), size);
    if (size - n > 2) {
        size_t m = known_name(r, ident, spawned, buf + n + 1, size - n - 1);
        buf[n] = m > 0 ? ' ' : 0;
        n += m > 0 ? m + 1 : 0;
    }
    return n;
}

size_t kymo_short_label(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size)
{
    size_t n = known_name(r, ident, 0, buf, size);
    return n > 0 ? n : cut_length(kymo_format_ident(r, ident, buf, size), size);
}
