/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nif_boxed.h"
#include "nif_term.h"

/* The runtime's own hash of a term copies binaries that begin at a bit offset, and
 * visits all of a term however large it is. */

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

/* The numbers are those of the reference on all nodes that see it. What its node is called
 * is not part of the hash: on that node itself the words of a reference do not say, and
 * the name may change. The numbers of two nodes are hardly ever the same: each runtime
 * begins with one made of the microsecond in which it starts. */
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
