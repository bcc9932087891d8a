/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes damaged recordings to the reader. Whatever the files contain, it must terminate, not read
 * beyond them, and deliver the same when it reads twice.
 */
#include "fuzz_files.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    make_dir();
    return 0;
}

/* Reads every byte, so that the sanitizer checks it. */
static void touch(const uint8_t *p, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += p[i];
    if (sum > 255ull * n)
        abort();
}

static uint64_t read_all(struct kymo_reader *r)
{
    struct kymo_event ev;
    uint64_t n = 0, last = 0;
    char text[256];
    int rc;
    while ((rc = kymo_reader_next(r, &ev)) == 1) {
        n++;
        if (ev.ticks < last || kymo_event_name(ev.id) == NULL || ev.slot >= r->n_slots)
            abort();
        last = ev.ticks;
        touch(ev.content, ev.content_len);
        touch(ev.msr, ev.msr_len);
        if (ev.has_content)
            kymo_format_value(r, ev.content, ev.content_len, text, sizeof text);
        kymo_format_ident(r, ev.who, text, sizeof text);
        kymo_format_ident(r, ev.peer, text, sizeof text);
        kymo_format_mfa(r, ev.mfa, text, sizeof text);
        kymo_reader_wall_ns(r, ev.ns);
        kymo_reader_erl_ns(r, ev.ns);
    }
    if (rc != 0)
        abort();
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kymo_reader *r;
    char err[256];
    if (!write_recording(data, size))
        return 0;
    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        return err[0] == '\0' ? (abort(), 0) : 0;
    uint64_t complete = read_all(r), first, raw = 0, done, total;
    kymo_reader_show_all(r, true);
    kymo_reader_rewind(r);
    first = read_all(r);
    if (complete > first)
        abort();
    struct kymo_damage damage = *kymo_reader_damage(r);
    kymo_reader_progress(r, &done, &total);
    if (done != total)
        abort();
    kymo_reader_rewind(r);
    if (read_all(r) != first || memcmp(&damage, kymo_reader_damage(r), sizeof damage) != 0)
        abort(); /* nothing is counted twice */
    const uint8_t *bytes;
    size_t len;
    for (uint64_t i = 0; kymo_reader_segment(r, i, &bytes, &len) == 1; i++) {
        struct kymo_segment h;
        if (bytes == NULL)
            continue;
        memcpy(&h, bytes, sizeof h);
        if (h.content_bits != len * 8)
            abort();
        raw += h.events;
    }
    if (raw > first) /* notes are counted by read_all only */
        abort();
    int64_t begin, end;
    if (kymo_reader_span(r, &begin, &end) == 0 && first == 0)
        abort();
    kymo_reader_close(r);
    return 0;
}
