/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_early.h"

#include <errno.h>
#include <stdlib.h>

int kymo_early_init(struct kymo_early *e, struct kymo_reader *r)
{
    *e = (struct kymo_early){.r = r};
    kymo_map_init(&e->receipts, sizeof(struct kymo_receipt));
    (void)kymo_reader_slots(r, &e->n_slots);
    e->newest = malloc(((size_t)e->n_slots + 1) * sizeof *e->newest);
    if (e->newest == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < e->n_slots; i++)
        e->newest[i] = INT64_MIN;
    for (uint32_t i = 0; i < kymo_timeline_size(r); i++) {
        int64_t last;
        int rc = kymo_timeline_member_span(r, i, &e->begins[i], &last);
        if (rc == -ENODATA) /* no events there */
            e->begins[i] = INT64_MAX;
        else if (rc < 0)
            return rc;
    }
    return 0;
}

void kymo_early_free(struct kymo_early *e)
{
    kymo_map_free(&e->receipts);
    free(e->newest);
    e->newest = NULL;
}

void kymo_early_event(struct kymo_early *e, uint32_t slot, int64_t ns)
{
    if (slot < e->n_slots && ns > e->newest[slot])
        e->newest[slot] = ns;
}

static uint64_t key_of(uint64_t to, uint64_t hash)
{
    return (to * UINT64_C(0x9e3779b97f4a7c15)) ^ hash;
}

/* Drops old receipts, whose send events would have been recorded by now. */
static void forget_old(struct kymo_early *e, int64_t now)
{
    struct kymo_map rest;
    size_t it = 0;
    uint64_t key;
    kymo_map_init(&rest, sizeof(struct kymo_receipt));
    for (const struct kymo_receipt *from; (from = kymo_map_next(&e->receipts, &it, &key)) != NULL;) {
        struct kymo_receipt *to = now - from->ns < KYMO_EARLY_NS ? kymo_map_put(&rest, key, NULL) : NULL;
        if (to != NULL)
            *to = *from;
        else if (now - from->ns < KYMO_EARLY_NS)
            e->too_many = true; /* no memory */
    }
    kymo_map_free(&e->receipts);
    e->receipts = rest;
    e->too_many = e->too_many || rest.count >= KYMO_EARLY_MAX;
}

void kymo_early_received(struct kymo_early *e, uint64_t to, uint64_t hash, int64_t ns)
{
    if (e->receipts.count >= KYMO_EARLY_MAX)
        forget_old(e, ns);
    struct kymo_receipt *receipt = e->too_many ? NULL : kymo_map_put(&e->receipts, key_of(to, hash), NULL);
    if (receipt == NULL) {
        e->too_many = true;
        return;
    }
    receipt->n++;
    receipt->ns = ns;
}

bool kymo_early_waits(struct kymo_early *e, uint64_t to, uint64_t hash, uint32_t slot, int64_t ns)
{
    if (e->too_many || slot >= e->n_slots || ns < e->begins[kymo_timeline_of(e->r, to)])
        return false;
    struct kymo_receipt *receipt = kymo_map_get(&e->receipts, key_of(to, hash));
    if (receipt == NULL)
        return true;
    if (e->newest[slot] > receipt->ns) { /* the sender is not recorded */
        kymo_map_remove(&e->receipts, key_of(to, hash));
        return true;
    }
    if (--receipt->n == 0)
        kymo_map_remove(&e->receipts, key_of(to, hash));
    return false;
}

void kymo_early_lost(struct kymo_early *e)
{
    kymo_map_free(&e->receipts);
    e->too_many = false;
}
