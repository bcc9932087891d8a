/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow stack from events with the depth of the process's stack. Frames at greater depths are
 * above those at lower ones; several at one depth are calls whose returns are recorded, each of which
 * has been replaced by the next with a tail call. A frame of unknown depth counts as deeper than all
 * others.
 */
#include "stack_int.h"

void kymo_stack_end_above(struct kymo_stack *st, uint32_t words, kymo_leave_fn leave, void *arg)
{
    while (st->n > 0 && st->f[st->n - 1].words > words)
        kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN_TO);
}

/* Ends the frames at this depth that are at the top and whose return_from will not be recorded. */
static void end_replaced(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t words,
                         enum kymo_leave why, kymo_leave_fn leave, void *arg)
{
    while (st->n > 0 && st->f[st->n - 1].words == words) {
        const uint32_t *seen = kymo_map_get(&facts->returns, st->f[st->n - 1].mfa);
        if (seen != NULL && *seen != 0)
            return;
        kymo_stack_pop(st, leave, arg, why);
    }
}

struct kymo_frame *kymo_stack_call_at(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t mfa,
                                      uint32_t words, kymo_leave_fn leave, void *arg)
{
    kymo_stack_end_above(st, words, leave, arg);
    end_replaced(st, facts, words, KYMO_LEAVE_REPLACED, leave, arg);
    if ((!facts->return_to_seen && kymo_map_get(&facts->returns, mfa) == NULL) || st->calls >= KYMO_STACK_MAX)
        return NULL;
    struct kymo_frame *f = kymo_stack_push(st, KYMO_FRAME_CALL, mfa);
    if (f != NULL)
        f->words = words;
    return f;
}

bool kymo_stack_return_from_at(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t mfa,
                               uint32_t words, kymo_leave_fn leave, void *arg)
{
    kymo_stack_end_above(st, words, leave, arg);
    for (uint32_t i = st->n, looked = 0; i-- > 0 && looked < KYMO_SEARCH_MAX; looked++) {
        if (st->f[i].words != words)
            break;
        if (st->f[i].mfa != mfa)
            continue;
        while (st->n > i + 1)
            kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN_TO);
        kymo_stack_pop(st, leave, arg, KYMO_LEAVE_RETURN);
        return true;
    }
    /* The call is older than the recording. It was on the stack below the others at this depth. */
    end_replaced(st, facts, words, KYMO_LEAVE_RETURN_TO, leave, arg);
    return false;
}
