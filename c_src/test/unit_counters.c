/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of how the command prints the node's counters: the largest values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "node_now.h"

#define MOST "18446744073709551615"
#define MOST_TEXT "18,446,744,073,709,551,615"

/* Means are sums of doubles, so two of the largest values have 2^64 as their mean. */
static const struct cli_counter largest = {
    .n = 2, .least = UINT64_MAX, .most = UINT64_MAX, .last = UINT64_MAX, .sum = 2 * (double)UINT64_MAX};

static char *printed;
static size_t length;

static FILE *open_memory(void)
{
    FILE *f = open_memstream(&printed, &length);
    assert_non_null(f);
    return f;
}

/* Closes the stream, and counts how often the text is in what was written. */
static unsigned count(FILE *f, const char *text)
{
    unsigned n = 0;
    assert_int_equal(fclose(f), 0);
    for (const char *at = printed; (at = strstr(at, text)) != NULL; at += strlen(text))
        n++;
    free(printed);
    return n;
}

static void rounds(void **state)
{
    (void)state;
    assert_true(cli_rounded(0) == 0 && cli_rounded(-3) == 0 && cli_rounded(0.4) == 0);
    assert_true(cli_rounded(0.5) == 1 && cli_rounded(1e15 + 0.5) == 1000000000000001);
    assert_true(cli_rounded(0x1p63) == UINT64_C(1) << 63);
    assert_true(cli_rounded(0x1.fffffffffffffp63) == UINT64_MAX - 2047);
    assert_true(cli_rounded(0x1p64) == UINT64_MAX && cli_rounded(1e300) == UINT64_MAX);
}

static void of_a_recording(void **state)
{
    (void)state;
    struct cli_counters c = {.of = {[KYMO_N_RUN_QUEUE] = largest, [KYMO_N_PROCESSES] = largest}};
    FILE *f = open_memory(), *before = stdout;
    cli_json_to(f);
    cli_json_open(NULL, '{');
    cli_counters_json(&c);
    cli_json_close('}');
    cli_json_to(NULL);
    assert_int_equal(count(f, "\"mean\":" MOST ","), 2);
    f = open_memory();
    stdout = f;
    cli_counters_text(&c, NULL);
    stdout = before;
    assert_int_equal(count(f, MOST_TEXT " "), 2 * 4); /* lowest, mean, highest, last */
}

static void of_a_window(void **state)
{
    (void)state;
    static struct cli_node_now n;
    n.window.of[KYMO_N_RUN_QUEUE] = n.window.of[KYMO_N_REDUCTIONS] = n.window.of[KYMO_N_COLLECTIONS] =
        largest;
    n.window.of[KYMO_N_INPUT] = largest;
    n.scheduler[1] = largest;
    n.last_scheduler = 1;
    FILE *f = open_memory();
    cli_node_now_text(f, &n, NULL, 0);
    assert_int_equal(count(f, MOST_TEXT " reductions/s, " MOST_TEXT " collections/s"), 1);
    f = open_memory();
    cli_node_now_text(f, &n, NULL, 0);
    assert_int_equal(count(f, "16 EiB/s in"), 1);
    f = open_memory();
    cli_json_to(f);
    cli_json_open(NULL, '{');
    cli_node_now_json(&n);
    cli_json_close('}');
    cli_json_to(NULL);
    assert_int_equal(count(f, "\"utilization_ppm\":" MOST), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds), cmocka_unit_test(of_a_recording),
                                       cmocka_unit_test(of_a_window)};
    return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
