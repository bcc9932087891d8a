/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the segments that were found with the counters of the recorder, for files that were
 * removed or cut after the recorder had ended.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "timeline.h"

static bool at_rest(const struct kymo_reader *r)
{
    return r->meta.state == KYMO_CLOSED || r->meta.snapshot != 0;
}

uint64_t kymo_reader_missing(const struct kymo_reader *r, uint64_t found)
{
    uint64_t recorded = 0, there = found + r->meta.events_removed;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        recorded += r->slots[i].events;
        there += r->slots[i].overwritten + r->slots[i].io_lost;
    }
    return at_rest(r) && recorded > there ? recorded - there : 0;
}

static bool read_header(struct kymo_reader *r, const struct kymo_seg_ref *ref, struct kymo_segment *h)
{
    return kymo_ref_read(r, ref, h, sizeof *h) == (ssize_t)sizeof *h;
}

/* The events of refs[0 .. n), consecutive segments of one thread. */
static uint64_t events_of_run(struct kymo_reader *r, const struct kymo_seg_ref *refs, size_t n)
{
    struct kymo_segment first, last;
    if (!read_header(r, &refs[0], &first) || !read_header(r, &refs[n - 1], &last))
        return 0;
    uint64_t end = last.events_before + last.events;
    return end > first.events_before ? end - first.events_before : 0;
}

void kymo_missing_find(struct kymo_reader *r)
{
    const struct kymo_seg_ref *refs = r->index.refs;
    uint64_t found = 0;
    for (size_t i = 0, n; at_rest(r) && i < r->index.n; i += n) {
        for (n = 1;
             i + n < r->index.n && refs[i + n].slot == refs[i].slot && refs[i + n].seq == refs[i].seq + n;)
            n++;
        found += events_of_run(r, &refs[i], n);
    }
    r->damage.events_missing = kymo_reader_missing(r, found);
}

static bool has_file(const struct kymo_reader *r, const char *name)
{
    int fd = kymo_file_open(r->files.dir, name, NULL);
    if (fd >= 0)
        close(fd);
    return fd != -ENOENT;
}

bool kymo_reader_missing_file(const struct kymo_reader *r, char *name, size_t size)
{
    if (r->timeline != NULL)
        return kymo_timeline_missing_file(r, name, size);
    if (r->damage.events_missing == 0)
        return false;
    if (r->meta.snapshot == 0 && r->meta.policy == KYMO_OVERWRITE && !has_file(r, KYMO_RING_NAME)) {
        snprintf(name, size, "%s", KYMO_RING_NAME);
        return true;
    }
    uint64_t newest = r->meta.snapshot != 0 ? 1 : r->meta.files;
    for (uint64_t number = r->meta.files_removed + 1; number <= newest && number <= UINT32_MAX; number++) {
        char data[32];
        snprintf(data, sizeof data, KYMO_DATA_FMT, (uint32_t)number);
        if (!has_file(r, data)) {
            snprintf(name, size, "%s", data);
            return true;
        }
    }
    return false;
}
