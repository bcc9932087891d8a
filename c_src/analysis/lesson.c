/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_lesson.h"

#include <errno.h>
#include <string.h>

#include "kymo_residents.h"

bool kymo_hibernates(const struct kymo_reader *r, const struct kymo_event *ev)
{
    struct kymo_mfa mfa;
    return ev->id == KYMO_E_OUT && kymo_reader_mfa(r, ev->mfa, &mfa) && mfa.arity == 3 &&
           kymo_text_is(kymo_reader_atom(r, mfa.function), "hibernate") &&
           kymo_text_is(kymo_reader_atom(r, mfa.module), "erlang");
}

static void end_stack(struct kymo_lesson *l, struct kymo_stack *st, const struct kymo_reader *r)
{
    kymo_stack_lost(st, kymo_reader_loss_epoch(r));
    kymo_stack_learn_end(st, &l->facts);
    kymo_stack_clear(st, NULL, NULL);
}

static void end_stacks(struct kymo_lesson *l, struct kymo_map *stacks, const struct kymo_reader *r)
{
    size_t it = 0;
    for (struct kymo_stack *st; (st = kymo_map_next(stacks, &it, NULL)) != NULL;)
        end_stack(l, st, r);
    kymo_map_free(stacks);
}

static bool learn_event(struct kymo_lesson *l, struct kymo_map *stacks, const struct kymo_reader *r,
                        const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_IN || ev->id == KYMO_E_OUT)
        l->running = true;
    if (ev->id == KYMO_E_TAKEN)
        l->takes = true;
    if (ev->id == KYMO_E_EXIT) {
        struct kymo_stack *st = kymo_map_get(stacks, ev->who);
        if (st != NULL) {
            end_stack(l, st, r);
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
    uint32_t mfa = kymo_canonical(r, ev->mfa);
    if (ev->depth != KYMO_DEPTH_UNKNOWN) { /* nothing else has to be learned */
        if (ev->id == KYMO_E_RETURN_FROM || ev->id == KYMO_E_EXCEPTION_FROM)
            kymo_facts_returns(&l->facts, mfa);
        return true;
    }
    if (stacks->count >= KYMO_RESIDENTS && kymo_map_get(stacks, ev->who) == NULL)
        end_stacks(l, stacks, r);
    struct kymo_stack *st = kymo_map_put(stacks, ev->who, NULL);
    if (st == NULL)
        return false;
    kymo_stack_lost(st, kymo_reader_loss_epoch(r));
    if (ev->id == KYMO_E_CALL) {
        kymo_stack_call(st, &l->facts, mfa, ev->depth, NULL, NULL);
    } else if (ev->id == KYMO_E_RETURN_TO) {
        kymo_stack_return_to(st, &l->facts, mfa, ev->depth, NULL, NULL);
    } else {
        kymo_stack_return_from(st, &l->facts, mfa, ev->depth, NULL, NULL);
    }
    return true;
}

int kymo_lesson_take(struct kymo_lesson *lesson, struct kymo_reader *r,
                     int (*next)(void *arg, struct kymo_event *ev), void *arg)
{
    memset(lesson, 0, sizeof *lesson);
    kymo_facts_init(&lesson->facts);
    struct kymo_map stacks;
    kymo_map_init(&stacks, sizeof(struct kymo_stack));
    struct kymo_event ev;
    bool return_to = false;
    kymo_reader_show_all(r, false);
    int rc = kymo_reader_rewind(r);
    /* Opens frames from the start, in case a return_to comes later. */
    lesson->facts.return_to_seen = true;
    for (uint32_t i = 0; rc >= 0 && i < KYMO_LESSON_EVENTS && (rc = next(arg, &ev)) == 1; i++) {
        return_to = return_to || ev.id == KYMO_E_RETURN_TO;
        if (!learn_event(lesson, &stacks, r, &ev)) {
            rc = -ENOMEM;
            break;
        }
    }
    lesson->facts.return_to_seen = return_to;
    end_stacks(lesson, &stacks, r);
    lesson->taken = rc >= 0;
    return rc < 0 ? rc : 0;
}
