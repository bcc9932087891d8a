/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_residents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_format.h"

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
        /* Terminates: the mark `recent` is cleared in the first round of the hand. */
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
