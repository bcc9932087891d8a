/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that report/largest.c keeps the longest of many stretches, compared with all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "largest.h"

enum { N = 20000, MOST = 300, PARTS = 10, EACH = 7, LAST = 1000000 };

static struct report_stretch all[N];

/* The same numbers in each run; many are equal. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(struct report_largest *l)
{
    uint32_t state = 17;
    assert_true(report_largest_init(l, MOST, PARTS, EACH, 0, LAST));
    for (uint32_t i = 0; i < N; i++) {
        int64_t start = next_random(&state) % LAST;
        all[i] = (struct report_stretch){.id = i, .start = start, .end = start + next_random(&state) % 5000};
        report_largest_add(l, &all[i]);
    }
}

/* The number of stretches, in all or in one part, that are longer. */
static size_t longer(const struct report_stretch *s, int64_t from, int64_t to)
{
    size_t n = 0;
    for (uint32_t i = 0; i < N; i++)
        n += all[i].start >= from && all[i].start < to && all[i].end - all[i].start > s->end - s->start;
    return n;
}

static void keeps_the_longest(void **state)
{
    struct report_largest l;
    size_t n, of_all = 0;
    fill(&l);
    struct report_stretch *kept = report_largest_list(&l, &n);
    assert_non_null(kept);
    assert_int_equal(l.seen, N);
    assert_in_range(n, MOST, MOST + PARTS * EACH);
    for (size_t i = 0; i < n; i++) {
        int64_t part = kept[i].start / (LAST / PARTS) * (LAST / PARTS);
        bool long_of_all = longer(&kept[i], 0, LAST) < MOST;
        assert_true(long_of_all || longer(&kept[i], part, part + LAST / PARTS) < EACH);
        of_all += long_of_all;
    }
    assert_true(of_all >= MOST);
    free(kept);
    report_largest_free(&l);
    (void)state;
}

static void lists_each_once_by_start(void **state)
{
    struct report_largest l;
    size_t n;
    fill(&l);
    struct report_stretch *kept = report_largest_list(&l, &n);
    assert_non_null(kept);
    for (size_t i = 1; i < n; i++) {
        assert_true(kept[i - 1].start <= kept[i].start);
        assert_true(kept[i - 1].start < kept[i].start || kept[i - 1].id != kept[i].id);
    }
    free(kept);
    report_largest_free(&l);
    (void)state;
}

/* A recording of zero length has no parts. */
static void takes_no_time(void **state)
{
    struct report_largest l;
    struct report_stretch s = {.start = 5, .end = 5};
    size_t n;
    assert_true(report_largest_init(&l, 2, PARTS, EACH, 5, 5));
    for (s.id = 1; s.id <= 3; s.id++)
        report_largest_add(&l, &s);
    struct report_stretch *kept = report_largest_list(&l, &n);
    assert_non_null(kept);
    assert_int_equal(n, 2);
    free(kept);
    report_largest_free(&l);
    (void)state;
}

static void sorts_the_longest_first(void **state)
{
    struct report_largest l;
    struct report_heap h;
    fill(&l);
    assert_true(report_heap_init(&h, MOST));
    for (uint32_t i = 0; i < N; i++)
        report_heap_add(&h, &all[i]);
    report_heap_sort(&h);
    assert_int_equal(h.n, MOST);
    assert_int_equal(longer(&h.item[0], 0, LAST), 0);
    for (uint32_t i = 1; i < MOST; i++) {
        assert_true(h.item[i - 1].end - h.item[i - 1].start >= h.item[i].end - h.item[i].start);
        assert_in_range(longer(&h.item[i], 0, LAST), 0, i);
    }
    free(h.item);
    report_largest_free(&l);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_longest),
        cmocka_unit_test(lists_each_once_by_start),
        cmocka_unit_test(takes_no_time),
        cmocka_unit_test(sorts_the_longest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
