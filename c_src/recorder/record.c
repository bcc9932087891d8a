/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths of records, from the table of events in kymo_format.h.
 */
#include "kymo_internal.h"

static const char *const fields[KYMO_E_COUNT] = {
#define KYMO_X(id, sym, name, letters) [id] = (letters),
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
};

/* Each step takes its bytes from *left; false when they are not there. */
static bool take(const uint8_t **p, size_t *left, size_t n)
{
    if (*left < n)
        return false;
    *p += n;
    *left -= n;
    return true;
}

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static bool take_field(char letter, const uint8_t **p, size_t *left)
{
    switch (letter) {
    case 'W':
    case 'P':
    case 'Q':
    case 'U': return take(p, left, 8);
    case 'M':
    case 'A':
    case 'S': return take(p, left, 4);
    case 'K': return take(p, left, 1);
    default: { /* G: a count, then that many words */
        const uint8_t *count = *p;

        return take(p, left, 1) && take(p, left, (size_t)*count * 8);
    }
    }
}

static bool take_header(const uint8_t **p, size_t *left, uint64_t *ticks, unsigned *id)
{
    const uint8_t *h = *p;
    uint32_t low;

    if (!take(p, left, KYMO_HDR_COMPACT))
        return false;
    memcpy(&low, h + 1, sizeof low);
    *id = h[0];
    if (*id != KYMO_ID_EXTENDED) {
        *ticks += (uint32_t)(low - (uint32_t)*ticks);
        return true;
    }
    if (!take(p, left, KYMO_HDR_EXTENDED - KYMO_HDR_COMPACT))
        return false;
    *id = low;
    *ticks = get64(h + 5);
    return low < 256;
}

size_t kymo_record_step(const uint8_t *p, size_t left, uint64_t *ticks, unsigned *id)
{
    const uint8_t *start = p;
    uint64_t t = *ticks;
    unsigned full;

    if (!take_header(&p, &left, &t, &full) || t < *ticks || fields[full & KYMO_ID_MASK] == NULL)
        return 0;
    for (const char *f = fields[full & KYMO_ID_MASK]; *f != '\0'; f++) {
        if (!take_field(*f, &p, &left))
            return 0;
    }
    if ((full & KYMO_HAS_CONTENT) != 0) {
        const uint8_t *c = p;

        if (!take(&p, &left, KYMO_CONTENT_HDR) || !take(&p, &left, get16(c + 1)))
            return 0;
    }
    if ((full & KYMO_HAS_OPTS) != 0) {
        const uint8_t *o = p;

        if (!take(&p, &left, KYMO_OPTS_HDR) || !take(&p, &left, get16(o + 20)))
            return 0;
    }
    *ticks = t;
    *id = full & KYMO_ID_MASK;
    return (size_t)(p - start);
}
