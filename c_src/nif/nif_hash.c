/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nif_boxed.h"
#include "nif_term.h"

/* The runtime's hash functions are not used, because they copy binaries that begin at a bit
 * offset, and visit the whole term however large it is. */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

uint64_t nif_hash_bytes(const uint8_t *bytes, size_t len)
{
    uint64_t h = len;
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t v;
        memcpy(&v, bytes, sizeof v);
        h = mix(h, v);
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, len);
    return mix(h, rest);
}

/* Hashes the numbers of a reference, which are the same on all nodes. The name of its node is
 * not included: a local reference does not contain it, and it may change. References of
 * different nodes rarely have the same numbers, because each runtime derives its first ones
 * from the microsecond in which it starts. */
static uint64_t hash_ref(const struct nif_ref *ref)
{
    uint64_t h = mix(3, (uint64_t)ref->number[0] << 32 | ref->number[1]);
    return mix(h, ref->number[2]);
}

bool nif_ref_hash(ERL_NIF_TERM t, uint64_t *hash)
{
    struct nif_ref ref;
    if (!nif_ref(t, &ref) || ref.n < 3) {
        return false;
    }
    *hash = hash_ref(&ref);
    return true;
}

uint64_t nif_term_hash(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t)
{
    enum { LOOKED_AT = 512 };
    uint8_t etf[LOOKED_AT];
    uint64_t hash;
    bool cut = false;
    if (nif_is_ref(t) && nif_ref_hash(t, &hash)) {
        return hash;
    }
    return nif_hash_bytes(etf, nif_term_encode(env, h, t, etf, sizeof etf, &cut));
}
