/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses arbitrary bytes as a dictionary, in pieces, as files are read. The checksums of entries may be
 * corrected first, so that the code after this check is reached. The first byte of the input selects
 * whether they are, and the size of the pieces.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kymo_reader_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_sums(uint8_t *p, size_t n)
{
    for (size_t pos = 0; pos + KYMO_DICT_HDR <= n;) {
        uint16_t len = kymo_get16(p + pos + 10);
        if (kymo_get32(p + pos) != KYMO_DICT_MAGIC || len > n - pos - KYMO_DICT_HDR) {
            pos += 8;
            continue;
        }
        uint32_t crc = (uint32_t)crc32(0, p + pos + 8, 8u + len);
        memcpy(p + pos + 4, &crc, 4);
        pos += (KYMO_DICT_HDR + (size_t)len + 7) & ~(size_t)7;
    }
}

static void use(struct kymo_reader *r)
{
    char text[256];
    for (uint32_t id = 0; id <= r->defs.n + 1; id++) {
        const uint8_t *etf;
        uint32_t len, name, mfa;
        uint32_t same = kymo_reader_canonical(r, id);
        if (kymo_reader_dict_kind(r, id) == 0 && id % 64 != 0)
            continue; /* all holes are alike */
        if (same > id || (r->defs.n >= id && kymo_reader_canonical(r, same) != same))
            abort();
        kymo_format_mfa(r, id, text, sizeof text);
        kymo_format_atom(kymo_reader_atom(r, id), text, sizeof text);
        kymo_format_ident(r, KYMO_IDENT(KYMO_I_TERM, id), text, sizeof text);
        if (kymo_reader_term(r, id, &etf, &len))
            kymo_format_value(r, etf, len, text, sizeof text);
        kymo_reader_process(r, id, &name, &mfa);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 16)
        return 0;
    size_t piece = (size_t)(data[0] >> 1) * 512 + KYMO_DICT_HDR, n = size - 1, pos = 0;
    uint8_t *copy = malloc(n + 1);
    uint64_t bad = 0;
    struct kymo_reader r;
    if (copy == NULL)
        return 0;
    memset(&r, 0, sizeof r);
    kymo_map_init(&r.defs.processes, sizeof(struct kymo_process));
    memcpy(copy, data + 1, n);
    if ((data[0] & 1) != 0)
        fix_sums(copy, n);
    while (pos < n) {
        bool last = piece >= n - pos;
        ssize_t used = kymo_defs_parse(&r.defs, copy + pos, last ? n - pos : piece, pos, last, &bad);
        if (used < 0 || (last && (size_t)used != n - pos) || (size_t)used > n - pos)
            abort();
        if (used == 0)
            piece *= 2; /* an entry longer than the piece */
        pos += (size_t)used;
    }
    if (kymo_defs_finish(&r.defs) != 0 || bad > n)
        abort();
    use(&r);
    kymo_defs_free(&r.defs);
    free(copy);
    return 0;
}
