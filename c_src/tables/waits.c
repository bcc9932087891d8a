/* SPDX-License-Identifier: Apache-2.0
 *
 * The places of a process form a list, and are found by a number of the process and the function. A run on a dirty scheduler, and the wait for that scheduler, belong to the function that is
 * called there. After it, and where the process commands a port, it waits for no message.
 */
#include "waits.h"

#include <errno.h>
#include <stdlib.h>

struct waits_place {
    struct kymo_wait_row row;
    uint32_t next; /* + 1, 0 = none */
};

/* A process, and its wait since its last run. */
struct waiting {
    uint32_t number;
    uint32_t first;  /* place + 1, 0 = none */
    uint32_t mfa;    /* where the last run stopped */
    int64_t since;   /* KYMO_NO_TIME: it does not wait, or since when is unknown */
    bool for_normal; /* it was on a dirty scheduler before */
};

void kymo_waits_init(struct kymo_waits *w, const struct kymo_shed *shed, size_t n_shed,
                     int (*row)(void *, enum kymo_table_id, const void *), void *arg)
{
    *w = (struct kymo_waits){.shed = shed, .n_shed = n_shed, .row = row, .arg = arg};
    kymo_map_init(&w->processes, sizeof(struct waiting));
    kymo_map_init(&w->by_function, sizeof(uint32_t));
}

void kymo_waits_free(struct kymo_waits *w)
{
    kymo_map_free(&w->processes);
    kymo_map_free(&w->by_function);
    free(w->places);
    w->places = NULL;
}

/* ---- places ---- */

/* A place without a row, + 1; 0 if there is no memory. */
static uint32_t new_place(struct kymo_waits *w)
{
    if (w->unused != 0) {
        uint32_t place = w->unused;
        w->unused = w->places[place - 1].next;
        return place;
    }
    if (w->n_places == w->room) {
        uint32_t room = w->room == 0 ? 1024 : w->room * 2;
        struct waits_place *more = room > w->room ? realloc(w->places, room * sizeof *more) : NULL;
        if (more == NULL)
            return 0;
        w->places = more;
        w->room = room;
    }
    return ++w->n_places;
}

static uint64_t key_of(const struct waiting *p, uint32_t mfa)
{
    return (uint64_t)p->number << 32 | mfa;
}

/* The row of this function. NULL if there is no memory. */
static struct kymo_wait_row *place_of(struct kymo_waits *w, struct waiting *p, uint64_t process, uint32_t mfa)
{
    uint32_t *place = kymo_map_put(&w->by_function, key_of(p, mfa), NULL);
    if (place == NULL)
        return NULL;
    if (*place == 0) {
        if ((*place = new_place(w)) == 0)
            return NULL;
        w->places[*place - 1] = (struct waits_place){
            .row = {.process = process, .mfa = mfa, .longest_start = KYMO_NO_TIME}, .next = p->first};
        p->first = *place;
    }
    return &w->places[*place - 1].row;
}

/* ---- waits ---- */

/* When the budget began to leave out runs, if that was in a wait. */
static int64_t clipped(const struct kymo_waits *w, int64_t since, int64_t end)
{
    for (size_t i = 0; i < w->n_shed; i++) {
        const struct kymo_shed *s = &w->shed[i];
        if (s->kind == KYMO_KIND_RUNNING && s->to >= since && s->from < end)
            end = s->from > since ? s->from : since;
    }
    return end;
}

/* The wait of a process ends; it was for a dirty scheduler if mfa is the function called there, otherwise 0. */
static int end_wait(struct kymo_waits *w, struct waiting *p, uint64_t process, int64_t end, uint32_t mfa)
{
    int64_t since = p->since;
    p->since = KYMO_NO_TIME;
    if (since == KYMO_NO_TIME || end == KYMO_NO_TIME || (p->for_normal && mfa == 0))
        return 0;
    struct kymo_wait_row *row = place_of(w, p, process, mfa != 0 ? mfa : p->mfa);
    if (row == NULL)
        return -ENOMEM;
    int64_t ns = clipped(w, since, end) - since;
    if (ns <= 0)
        return 0;
    row->waits++;
    row->waiting += ns;
    if (ns > row->longest) {
        row->longest = ns;
        row->longest_start = since;
    }
    return 0;
}

int kymo_waits_run(struct kymo_waits *w, const struct kymo_run *run)
{
    struct waiting *p;
    bool added;
    if ((p = kymo_map_put(&w->processes, run->process, &added)) == NULL)
        return -ENOMEM;
    if (added) {
        p->since = KYMO_NO_TIME;
        p->number = w->numbered++;
    }
    int rc = end_wait(w, p, run->process, run->start, run->dirty ? run->in_mfa : 0);
    if (rc != 0 || run->end == KYMO_NO_TIME)
        return rc;
    p->mfa = run->dirty ? run->in_mfa : run->reason == KYMO_OUT_PORT ? 0 : run->out_mfa;
    p->since = run->exited ? KYMO_NO_TIME : run->end;
    p->for_normal = run->dirty;
    struct kymo_wait_row *row = place_of(w, p, run->process, p->mfa);
    if (row == NULL)
        return -ENOMEM;
    row->runs++;
    if (run->start != KYMO_NO_TIME && run->dirty)
        row->dirty += run->end - run->start;
    else if (run->start != KYMO_NO_TIME)
        row->running += run->end - run->start;
    return 0;
}

/* Gives the rows of a process, and takes its places back. */
static int give(struct kymo_waits *w, struct waiting *p, uint64_t process, int64_t end)
{
    int rc = end_wait(w, p, process, end, 0);
    for (uint32_t i = p->first, next; i != 0; i = next) {
        struct waits_place *place = &w->places[i - 1];
        next = place->next;
        if (rc == 0)
            rc = w->row(w->arg, KYMO_TABLE_WAITS, &place->row);
        kymo_map_remove(&w->by_function, key_of(p, place->row.mfa));
        place->next = w->unused;
        w->unused = i;
    }
    p->first = 0;
    return rc;
}

int kymo_waits_exit(struct kymo_waits *w, uint64_t process, int64_t end)
{
    struct waiting *p = kymo_map_get(&w->processes, process);
    if (p == NULL)
        return 0;
    int rc = give(w, p, process, end);
    kymo_map_remove(&w->processes, process);
    return rc;
}

int kymo_waits_end(struct kymo_waits *w, int64_t end)
{
    struct waiting *p;
    uint64_t process;
    size_t it = 0;
    int rc = 0;
    while (rc == 0 && (p = kymo_map_next(&w->processes, &it, &process)) != NULL)
        rc = give(w, p, process, end);
    return rc;
}
