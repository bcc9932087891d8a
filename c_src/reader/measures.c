/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_measures.h"

#include <string.h>

/* Copies a field, cut to the room there is, and moves past its end. False if it has no end. */
static bool field(const char **at, const char *end, char separator, char *buf, size_t size)
{
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    if (stop == NULL)
        return false;
    size_t len = (size_t)(stop - *at) < size ? (size_t)(stop - *at) : size - 1;
    for (size_t i = 0; i < len; i++)
        buf[i] = (unsigned char)(*at)[i] >= ' ' ? (*at)[i] : '?';
    buf[len] = '\0';
    *at = stop + 1;
    return true;
}

bool kymo_measure_next(const struct kymo_meta *m, size_t *at, struct kymo_measure *out)
{
    const char *text = (const char *)m->measures, *p = text + *at;
    const char *end = text + (m->measures_len < sizeof m->measures ? m->measures_len : sizeof m->measures);
    if (p >= end || !field(&p, end, '\t', out->name, sizeof out->name) ||
        !field(&p, end, '\t', out->fixed_in, sizeof out->fixed_in) ||
        !field(&p, end, '\n', out->left_out, sizeof out->left_out))
        return false;
    *at = (size_t)(p - text);
    return true;
}

bool kymo_measured(const struct kymo_meta *m, const char *name)
{
    struct kymo_measure one;
    for (size_t at = 0; kymo_measure_next(m, &at, &one);) {
        if (strcmp(one.name, name) == 0)
            return true;
    }
    return false;
}
