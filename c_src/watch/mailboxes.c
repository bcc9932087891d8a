/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers of long mailboxes: from the messages that were sent and not fetched, and from the lengths
 * in the node's counters, which include fetched messages that the process has not taken.
 */
#include "watch_int.h"

/* What trigger i has to compare, from one of the two sources. */
struct length {
    uint64_t process, n;
    int64_t since, now;
};

/* Fires when the limit is exceeded, and again only after the number was half of it or less. Each
 * source has its map of processes that have fired; what is in `other` does not fire again. */
static void compare(struct kymo_triggers *t, struct kymo_map *full, const struct kymo_map *other,
                    const struct length *l)
{
    const uint64_t *elsewhere = kymo_map_get(other, l->process);
    uint64_t *by = kymo_map_get(full, l->process);
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t bit = 1ull << i, limit = (uint64_t)t->g[i].limit;
        if (!kymo_trigger_is(t, i, KYMO_TRIG_MAILBOX))
            continue;
        if (by != NULL && l->n <= limit / 2 + 1)
            *by &= ~bit;
        if (l->n <= limit || (by != NULL && (*by & bit) != 0))
            continue;
        if (by == NULL && full->count >= KYMO_TRIGGERS_OPEN)
            kymo_map_free(full);
        if (by == NULL && (by = kymo_map_put(full, l->process, NULL)) == NULL) {
            t->failed = true;
            return;
        }
        *by |= bit;
        struct kymo_firing f = {.value = (int64_t)l->n,
                                .start = l->since,
                                .end = l->now,
                                .process = l->process,
                                .server = KYMO_IDENT_NONE};
        if (elsewhere == NULL || (*elsewhere & bit) == 0)
            kymo_trigger_fire(t, i, &f);
    }
}

void kymo_triggers_sent(struct kymo_triggers *t, const struct kymo_event *ev)
{
    struct length l = {.now = ev->ns};
    l.n = kymo_live_waiting(t->live, ev, &l.process, &l.since);
    if (l.n != 0 && KYMO_IDENT_KIND(l.process) != KYMO_I_PORT && KYMO_IDENT_KIND(l.process) != KYMO_I_REF)
        compare(t, &t->unfetched, &t->longest, &l);
}

/* Whether the sample has the mailbox of this process. */
static bool names(const struct kymo_event *ev, uint64_t process)
{
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        if (kymo_counter_at(ev, i).counter == KYMO_N_MAILBOX && kymo_counter_process(ev, i) == process)
            return true;
    }
    return false;
}

/* The mailboxes that the sample does not have are no longer than the shortest that it has. */
static void forget_shorter(struct kymo_triggers *t, const struct kymo_event *ev)
{
    uint64_t least = UINT64_MAX, process, short_for = 0;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        struct kymo_counter_value v = kymo_counter_at(ev, i);
        if (v.counter == KYMO_N_MAILBOX) {
            uint64_t n = kymo_counter_process(ev, i) != KYMO_IDENT_NONE ? v.value : 0;
            least = n < least ? n : least;
        }
    }
    for (uint32_t i = 0; i < t->n; i++)
        short_for |= least <= (uint64_t)t->g[i].limit / 2 + 1 ? 1ull << i : 0;
    size_t it = 0;
    for (uint64_t *by; short_for != 0 && (by = kymo_map_next(&t->longest, &it, &process)) != NULL;) {
        if (!names(ev, process))
            *by &= ~short_for;
    }
}

void kymo_triggers_lengths(struct kymo_triggers *t, const struct kymo_event *ev)
{
    forget_shorter(t, ev);
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        struct kymo_counter_value v = kymo_counter_at(ev, i);
        struct length l = {
            .process = kymo_counter_process(ev, i), .n = v.value, .since = ev->ns, .now = ev->ns};
        if (v.counter == KYMO_N_MAILBOX && l.process != KYMO_IDENT_NONE && l.n <= INT64_MAX)
            compare(t, &t->longest, &t->unfetched, &l);
    }
}
