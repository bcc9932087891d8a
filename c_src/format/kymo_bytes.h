/* SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian integers at any address.
 */
#ifndef KYMO_BYTES_H
#define KYMO_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t kymo_get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t kymo_get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t kymo_get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian machines only");

#endif
