/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "watch_int.h"

void kymo_opens_init(struct kymo_opens *o)
{
    memset(o, 0, sizeof *o);
    kymo_map_init(&o->ids, 0);
}

void kymo_opens_free(struct kymo_opens *o)
{
    kymo_map_free(&o->ids);
    free(o->queue);
}

static struct kymo_waiting *at(const struct kymo_opens *o, uint32_t i)
{
    return &o->queue[(o->first + i) & (o->room - 1)];
}

static bool is_open(const struct kymo_opens *o, uint32_t i)
{
    return kymo_map_get(&o->ids, at(o, i)->id) != NULL;
}

/* Removes calls that have ended, which most do soon, before the queue is enlarged. */
static void squeeze(struct kymo_opens *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        if (is_open(o, i))
            *at(o, n++) = *at(o, i);
    }
    o->n = n;
}

static bool grow(struct kymo_opens *o)
{
    uint32_t room = o->room == 0 ? 1024 : o->room * 2;
    struct kymo_waiting *more = malloc(room * sizeof *more);
    if (more == NULL)
        return false;
    for (uint32_t i = 0; i < o->n; i++)
        more[i] = *at(o, i);
    free(o->queue);
    o->queue = more;
    o->room = room;
    o->first = 0;
    return true;
}

bool kymo_opens_add(struct kymo_opens *o, const struct kymo_waiting *w)
{
    if (o->n == o->room) {
        squeeze(o);
        if (o->n >= KYMO_TRIGGERS_OPEN) {
            o->left_out++;
            return true;
        }
        /* Enlarge it unless half of it is free, so that squeezing stays rare. */
        if (o->n >= o->room / 2 && !grow(o))
            return false;
    }
    if (kymo_map_put(&o->ids, w->id, NULL) == NULL)
        return false;
    o->n++;
    *at(o, o->n - 1) = *w;
    return true;
}

bool kymo_opens_end(struct kymo_opens *o, uint64_t id)
{
    if (kymo_map_get(&o->ids, id) == NULL)
        return false;
    kymo_map_remove(&o->ids, id);
    return true;
}

bool kymo_opens_next(struct kymo_opens *o, int64_t before, struct kymo_waiting *w)
{
    while (o->n > 0 && at(o, 0)->start < before) {
        *w = *at(o, 0);
        o->first = (o->first + 1) & (o->room - 1);
        o->n--;
        if (kymo_opens_end(o, w->id))
            return true;
    }
    return false;
}

bool kymo_opens_keep(struct kymo_opens *o, uint64_t id)
{
    return kymo_map_put(&o->ids, id, NULL) != NULL;
}
