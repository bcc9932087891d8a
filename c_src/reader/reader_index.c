/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the segments. The ring is searched before the data files, so that a segment that a
 * running recorder moves to a data file during the search is found at least once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kymo_reader_int.h"

enum { FIRST_BLOCK = 4096, SEARCH_BLOCK = 64 * 1024 };

/* The number of segments of a data file that may claim more space than they have, before the
 * reader stops to search after them: each makes it search that space again. */
enum { MAX_LIES = 1000 };

/* How often a bad header in a living ring is read before it counts as damage. */
enum { LIVING_TRIES = 10 };

bool kymo_segment_header(const struct kymo_reader *r, const struct kymo_segment *h, uint64_t room,
                         struct kymo_seg_ref *ref)
{
    if (h->magic != KYMO_SEG_MAGIC || memcmp(h->uuid, r->meta.uuid, sizeof h->uuid) != 0 || h->stream_id != 0)
        return false;
    if (h->instance >= r->n_slots || h->seq == 0 || h->order == 0 || h->ts_before > h->ts_begin)
        return false;
    if (h->commit < KYMO_SEG_HEADER || h->commit > r->meta.segment_bytes || room < KYMO_SEG_HEADER)
        return false; /* no room if the file has grown since its size was read */
    if (h->content_bits != 0 && (h->content_bits != h->commit * 8 || h->ts_end < h->ts_begin))
        return false;
    ref->slot = (uint32_t)h->instance;
    ref->seq = h->seq;
    ref->order = h->order;
    ref->ts_begin = h->ts_begin;
    ref->mono_ns = h->mono_ns;
    ref->flags = h->content_bits != 0 ? KYMO_REF_CLOSED : 0;
    ref->len = (uint32_t)h->commit;
    if (h->commit > room) {
        ref->len = (uint32_t)room;
        ref->flags |= KYMO_REF_CUT;
    }
    return true;
}

static bool add(struct kymo_index *ix, const struct kymo_seg_ref *ref)
{
    void *p = ix->refs;
    bool ok = kymo_grow(&p, &ix->room, ix->n + 1, sizeof *ix->refs);
    ix->refs = p;
    if (ok)
        ix->refs[ix->n++] = *ref;
    return ok;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

bool kymo_is_living(const struct kymo_reader *r)
{
    return r->meta.state != KYMO_CLOSED && r->meta.snapshot == 0 && !r->crashed;
}

/* True for a place that was never used: all zero, or being initialised. */
static bool never_used(const struct kymo_segment *h)
{
    return h->commit == 0 && (h->magic == 0 || h->magic == KYMO_SEG_MAGIC);
}

/* Counts damage if a file cannot be opened, unless it does not exist. */
static int cannot_open(struct kymo_reader *r, int error)
{
    if (error == -EBADMSG)
        r->damage.segments_bad++;
    return error == -ENOENT || error == -EBADMSG ? 0 : error;
}

enum place { PLACE_EMPTY, PLACE_USED, PLACE_BAD };

/* Reads the place at `offset` of the pool. *h is its header. */
static enum place look_at(const struct kymo_reader *r, int fd, uint64_t offset, uint64_t room,
                          struct kymo_segment *h, struct kymo_seg_ref *ref)
{
    enum place what = PLACE_BAD;
    /* A header that is being written will be valid when it is read again. */
    for (unsigned tries = kymo_is_living(r) ? LIVING_TRIES : 1; tries > 0 && what == PLACE_BAD; tries--) {
        if (kymo_file_read(fd, h, sizeof *h, offset) != (ssize_t)sizeof *h)
            memset(h, 0xff, sizeof *h); /* the end of a cut file, or a read error */
        if (kymo_segment_header(r, h, room, ref))
            what = PLACE_USED;
        else if (never_used(h))
            what = PLACE_EMPTY;
    }
    ref->offset = offset;
    ref->file = KYMO_FILE_RING;
    return what;
}

/* The order of the newest segment. Segments that a living recorder opens during the search are
 * left out, or threads would have gaps. */
static uint64_t newest_order(const struct kymo_reader *r, int fd, uint64_t size)
{
    uint64_t newest = 0, stride = r->meta.segment_bytes;
    for (uint64_t i = 0; kymo_is_living(r) && i < r->meta.n_segments && i * stride < size; i++) {
        struct kymo_segment h;
        struct kymo_seg_ref ref;
        if (look_at(r, fd, i * stride, stride, &h, &ref) == PLACE_USED && ref.order > newest)
            newest = ref.order;
    }
    return newest == 0 ? UINT64_MAX : newest;
}

static int scan_ring(struct kymo_reader *r)
{
    uint64_t size;
    int fd = kymo_file_open(r->files.dir, KYMO_RING_NAME, &size);
    if (fd < 0)
        return cannot_open(r, fd); /* snapshots have no ring file */
    int rc = 0;
    uint64_t stride = r->meta.segment_bytes, places = r->meta.n_segments;
    r->index.newest = newest_order(r, fd, size);
    if (size < places * stride) /* it is created with its full size */
        r->damage.bytes_cut += places * stride - size;
    for (uint64_t i = 0; i < places && i * stride < size && rc == 0; i++) {
        struct kymo_segment h;
        struct kymo_seg_ref ref;
        enum place what = look_at(r, fd, i * stride, size - i * stride, &h, &ref);
        if (what == PLACE_USED) {
            r->index.places++;
            r->index.place_bytes += ref.len;
            if (ref.order <= r->index.newest && !add(&r->index, &ref))
                rc = -ENOMEM;
        } else if (what == PLACE_BAD) {
            r->damage.segments_bad++;
        } else if (h.magic == 0) { /* places that were never used may be holes */
            uint64_t next = kymo_file_data(fd, i * stride, size) / stride;
            i = next > i ? next - 1 : i;
        }
    }
    close(fd);
    return rc;
}

/* The offset of the next segment header at or after pos, whose first 20 bytes are known; size if
 * there is none. Adds the number of bytes skipped, except blocks of zeros, to *garbage. */
static uint64_t search(struct kymo_reader *r, int fd, uint64_t pos, uint64_t size, uint64_t *garbage)
{
    uint8_t needle[20];
    uint32_t magic = KYMO_SEG_MAGIC;
    memcpy(needle, &magic, 4);
    memcpy(needle + 4, r->meta.uuid, 16);
    uint8_t *block = malloc(SEARCH_BLOCK);
    uint64_t found = size;
    if (block == NULL)
        *garbage += size - pos;
    for (size_t want = FIRST_BLOCK; block != NULL && pos < size; want = SEARCH_BLOCK) {
        pos = kymo_file_data(fd, pos, size);
        ssize_t got = kymo_file_read(fd, block, want, pos);
        if (got < (ssize_t)sizeof needle) {
            bool nothing = got >= 0 && (uint64_t)got == size - pos && all_zero(block, (size_t)got);
            *garbage += nothing ? 0 : size - pos;
            break;
        }
        const uint8_t *hit = memmem(block, (size_t)got, needle, sizeof needle);
        /* The header may begin in the last bytes of this block. */
        size_t passed = hit != NULL ? (size_t)(hit - block) : (size_t)got - (sizeof needle - 1);
        if (!all_zero(block, passed))
            *garbage += passed;
        pos += passed;
        if (hit != NULL) {
            found = pos;
            break;
        }
        if (got < (ssize_t)want) {
            *garbage += all_zero(block + passed, (size_t)got - passed) ? 0 : (uint64_t)got - passed;
            break;
        }
    }
    free(block);
    return found;
}

/* Handles a segment that was in the ring when the index was made and is now in a data file: it
 * will be read there. */
static void relocate(struct kymo_index *ix, const struct kymo_seg_ref *found)
{
    size_t low = 0, high = ix->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct kymo_seg_ref *ref = &ix->refs[mid];
        if (ref->slot == found->slot && ref->seq == found->seq) {
            if (ref->file == KYMO_FILE_RING && (ref->flags & KYMO_REF_HELD) == 0 &&
                found->order == ref->order && found->len >= ref->len) {
                ref->file = found->file;
                ref->offset = found->offset;
                ref->flags &= ~KYMO_REF_SUM;
            }
            return;
        }
        if (ref->slot < found->slot || (ref->slot == found->slot && ref->seq < found->seq))
            low = mid + 1;
        else
            high = mid;
    }
}

/* Reads a data file from byte `pos` on. `growing`: a living recorder is writing it, so errors at
 * its end are not damage. `late`: the index is complete; search for segments that are no longer
 * in the ring. */
static int scan_data(struct kymo_reader *r, uint32_t number, uint64_t pos, bool growing, bool late)
{
    char name[32];
    uint64_t size;
    snprintf(name, sizeof name, KYMO_DATA_FMT, number);
    int fd = kymo_file_open(r->files.dir, name, &size);
    if (fd < 0)
        return cannot_open(r, fd); /* retention may have removed it */
    int rc = 0;
    uint64_t last_end = pos; /* end of the content of the last valid segment */
    unsigned lies = 0;
    struct kymo_damage before = r->damage;
    while (pos < size && rc == 0) {
        struct kymo_segment h;
        struct kymo_seg_ref ref;
        ssize_t got = kymo_file_read(fd, &h, sizeof h, pos);
        if (got < 0) { /* a read error */
            r->damage.bytes_cut += size - pos;
            break;
        }
        uint64_t space = h.packet_bits / 8;
        if (got == (ssize_t)sizeof h && h.packet_bits % 8 == 0 && space <= r->meta.segment_bytes &&
            kymo_segment_header(r, &h, size - pos, &ref) && h.commit <= space) {
            if (growing && (ref.flags & KYMO_REF_CUT) != 0)
                break;
            ref.offset = pos;
            ref.file = number;
            if (late)
                relocate(&r->index, &ref);
            else if (ref.order <= r->index.newest && !add(&r->index, &ref))
                rc = -ENOMEM;
            last_end = pos + ref.len;
            pos += space <= size - pos ? space : ref.len;
            continue;
        }
        uint64_t garbage = 0, end = pos + sizeof h < size ? pos + sizeof h : size;
        uint64_t next = last_end < pos && lies < MAX_LIES ? search(r, fd, last_end, end, &garbage) : pos;
        if (next < pos) { /* the last segment claims more space than it has */
            r->damage.segments_bad++;
            lies++;
            pos = last_end = next;
            continue;
        }
        garbage = 0;
        next = search(r, fd, pos + 1, size, &garbage);
        if (growing && next >= size)
            break;
        if (garbage != 0 || (got > 0 && !all_zero((const uint8_t *)&h, (size_t)got))) {
            r->damage.segments_bad++;
            r->damage.bytes_cut += garbage + 1;
        }
        pos = last_end = next; /* skipped bytes are not searched again */
    }
    if (late)
        r->damage = before;
    r->index.tail_file = number;
    r->index.tail_pos = pos;
    close(fd);
    return rc;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Lists the numbers of the existing data files in ascending order. */
static int list_data(int dir, uint32_t **out, size_t *n)
{
    uint32_t *numbers = NULL;
    size_t room = 0;
    *n = 0;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return -e;
    }
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;) {
        char name[32];
        unsigned number = 0;
        if (sscanf(e->d_name, "data.%9u", &number) != 1 || number == 0)
            continue;
        snprintf(name, sizeof name, KYMO_DATA_FMT, number);
        if (strcmp(name, e->d_name) != 0)
            continue;
        void *p = numbers;
        if (!kymo_grow(&p, &room, *n + 1, sizeof *numbers))
            rc = -ENOMEM;
        else
            ((uint32_t *)p)[(*n)++] = number;
        numbers = p;
    }
    closedir(d);
    if (*n > 1)
        qsort(numbers, *n, sizeof *numbers, by_number);
    *out = numbers;
    return rc;
}

/* Compares by slot and number. Of two copies, a complete one comes first, then the one in a data
 * file, which does not change any more. */
static int by_segment(const void *a, const void *b)
{
    const struct kymo_seg_ref *x = a, *y = b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->len != y->len)
        return x->len > y->len ? -1 : 1;
    return x->file > y->file ? -1 : x->file < y->file;
}

static void dedup(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    size_t kept = 0;
    if (ix->n > 1)
        qsort(ix->refs, ix->n, sizeof *ix->refs, by_segment);
    for (size_t i = 0; i < ix->n; i++) {
        const struct kymo_seg_ref *before = kept > 0 ? &ix->refs[kept - 1] : NULL;
        if (before == NULL || before->slot != ix->refs[i].slot || before->seq != ix->refs[i].seq)
            ix->refs[kept++] = ix->refs[i];
    }
    ix->n = kept;
}

/* The number of segments that are missing before ref without an explanation. A gap is explained
 * if an old data file was removed while even older segments stayed in the pool, or if a living
 * recorder has removed files since the search began. */
static uint64_t gap_before(const struct kymo_reader *r, const struct kymo_seg_ref *ref)
{
    bool removed = r->meta.files_removed != 0 && ref[-1].file == KYMO_FILE_RING &&
                   ref[-1].seq <= r->slots[ref->slot].drained_seq;
    return r->meta.policy != KYMO_DISCARD || removed || kymo_is_living(r) ? 0 : ref->seq - ref[-1].seq - 1;
}

static void sum_up(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    for (size_t i = 0; i < ix->n; i++) {
        const struct kymo_seg_ref *ref = &ix->refs[i];
        ix->bytes += ref->len;
        if (i > 0 && ref[-1].slot == ref->slot)
            r->damage.seq_gaps += gap_before(r, ref);
    }
}

/* Reads all data files from number `first` on, the first of them from byte `pos` on. */
static int scan_files(struct kymo_reader *r, uint32_t first, uint64_t pos, bool late)
{
    uint32_t *numbers = NULL;
    size_t n = 0;
    int rc = list_data(r->files.dir, &numbers, &n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (numbers[i] >= first)
            rc = scan_data(r, numbers[i], numbers[i] == first ? pos : 0, kymo_is_living(r) && i == n - 1,
                           late);
    }
    free(numbers);
    return rc;
}

static uint64_t events_of(struct kymo_reader *r, const struct kymo_seg_ref *ref)
{
    struct kymo_segment h;
    return kymo_ref_read(r, ref, &h, sizeof h) == (ssize_t)sizeof h && h.seq == ref->seq ? h.events : 0;
}

/* Segments of a removed data file may still be in the ring. They are shown, so subtracts them
 * from the removed events. */
static void count_back(struct kymo_reader *r)
{
    const struct kymo_index *ix = &r->index;
    uint64_t here = 0;
    for (size_t i = 0; r->meta.files_removed != 0 && i < ix->n;) {
        uint32_t slot = ix->refs[i].slot;
        bool older = true; /* than all that data files have of this thread */
        for (; i < ix->n && ix->refs[i].slot == slot; i++) {
            older = older && ix->refs[i].file == KYMO_FILE_RING;
            if (older && ix->refs[i].seq <= r->slots[slot].drained_seq)
                here += events_of(r, &ix->refs[i]);
        }
    }
    r->meta.events_removed -= here < r->meta.events_removed ? here : r->meta.events_removed;
}

int kymo_index_build(struct kymo_reader *r)
{
    r->index.newest = UINT64_MAX;
    int rc = scan_ring(r);
    if (rc == 0)
        rc = scan_files(r, 1, 0, false);
    if (rc != 0)
        return rc;
    dedup(r);
    rc = kymo_index_order(r);
    if (rc == 0)
        rc = kymo_index_hold(r);
    if (rc == 0) {
        kymo_horizon_find(r);
        sum_up(r);
        count_back(r);
        kymo_missing_find(r);
        r->index.made = true;
    }
    return rc;
}

bool kymo_index_left_ring(struct kymo_reader *r, const struct kymo_seg_ref *ref)
{
    if (ref->file != KYMO_FILE_RING || r->meta.policy != KYMO_DISCARD)
        return false;
    /* After an error the segment is not relocated, and counts as overwritten. */
    (void)scan_files(r, r->index.tail_file == 0 ? 1 : r->index.tail_file, r->index.tail_pos, true);
    return ref->file != KYMO_FILE_RING;
}
