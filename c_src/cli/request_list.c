/* SPDX-License-Identifier: Apache-2.0 */
#include "request_list.h"

#include <stdlib.h>
#include <string.h>

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
    if (s->room == 0 || (s->n == s->room && value <= kymo_request_total(&s->q[s->n - 1])))
        return;
    size_t i = s->n < s->room ? s->n++ : s->n - 1;
    for (; i > 0 && kymo_request_total(&s->q[i - 1]) < value; i--)
        s->q[i] = s->q[i - 1];
    s->q[i] = *q;
}
