/* SPDX-License-Identifier: Apache-2.0 */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

int64_t cli_request_total(const struct kymo_request *q)
{
    return kymo_since(q->sent, q->kind == KYMO_REQ_CAST ? q->handled_end : q->received);
}

int64_t cli_request_queued(const struct kymo_request *q)
{
    return kymo_since(q->sent, q->handled);
}

int64_t cli_request_handling(const struct kymo_request *q)
{
    return kymo_since(q->handled, q->kind == KYMO_REQ_CAST ? q->handled_end : q->replied);
}

int64_t cli_request_reply(const struct kymo_request *q)
{
    return q->kind == KYMO_REQ_CAST ? KYMO_NO_TIME : kymo_since(q->replied, q->received);
}

const char *cli_request_kind(const struct kymo_request *q)
{
    static const char *const names[] = {"?", "call", "cast", "io", "spawn"};
    return names[q->kind <= KYMO_REQ_SPAWN ? q->kind : 0];
}

const char *cli_request_end(const struct kymo_request *q)
{
    static const char *const names[] = {"replied", "down", "open", "no_reply", "gone"};
    return q->ended <= KYMO_REQ_GONE ? names[q->ended] : "?";
}

void cli_request_list_add(struct cli_request_list *l, const struct kymo_request *q)
{
    if (l->n == l->most) {
        l->left_out++;
        return;
    }
    if (l->n == l->room) {
        size_t room = l->room == 0 ? 256 : l->room * 2;
        struct kymo_request *more = realloc(l->q, room * sizeof *more);
        if (more == NULL) {
            l->failed = true;
            return;
        }
        l->q = more;
        l->room = room;
    }
    l->q[l->n++] = *q;
}

void cli_request_list_free(struct cli_request_list *l)
{
    free(l->q);
    memset(l, 0, sizeof *l);
}

void cli_slowest_add(struct cli_slowest *s, const struct kymo_request *q, int64_t value)
{
    if (s->room == 0 || (s->n == s->room && value <= cli_request_total(&s->q[s->n - 1])))
        return;
    size_t i = s->n < s->room ? s->n++ : s->n - 1;
    for (; i > 0 && cli_request_total(&s->q[i - 1]) < value; i--)
        s->q[i] = s->q[i - 1];
    s->q[i] = *q;
}
