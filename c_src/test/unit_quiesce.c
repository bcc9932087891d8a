/* SPDX-License-Identifier: Apache-2.0
 *
 * membarrier(2) may fail for lack of memory after earlier calls succeeded. Tests that no function
 * continues without the barrier.
 */
#include "rec_check.h"

#include <linux/membarrier.h>

static unsigned expedited_fails, global_fails; /* how many more times */
static unsigned expedited_calls, global_calls;

int kymo_test_membarrier(int cmd)
{
    unsigned *fails = cmd == MEMBARRIER_CMD_GLOBAL ? &global_fails : &expedited_fails;

    if (cmd == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
        return 0;
    *(cmd == MEMBARRIER_CMD_GLOBAL ? &global_calls : &expedited_calls) += 1;
    if (*fails == 0)
        return 0;
    --*fails;
    errno = ENOMEM;
    return -1;
}

static void stop_with(const char *name, unsigned expedited, unsigned global)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, name, KYMO_OVERWRITE);

    if (r->head.fenced) { /* under ThreadSanitizer producers have barriers of their own */
        kymo_recorder_close(r);
        skip();
    }
    assert_int_equal(rc_calls(r, 0, 10), 10);
    expedited_fails = expedited;
    global_fails = global;
    expedited_calls = global_calls = 0;
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).events, 10);
    kymo_recorder_close(r);
}

static void the_slow_command_does_too(void **state)
{
    (void)state;
    stop_with("slow", 1, 0);
    assert_int_equal(expedited_calls, 1);
    assert_int_equal(global_calls, 1);
}

static void it_is_tried_again(void **state)
{
    (void)state;
    stop_with("again", 5, 4);
    assert_int_equal(expedited_calls, 5);
    assert_int_equal(global_calls, 5);
}

static void where_it_never_worked_producers_pay(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r;

    (void)state;
    expedited_fails = 1;
    r = rc_fresh(&o, "never", KYMO_OVERWRITE);
    expedited_fails = global_fails = 0;
    expedited_calls = global_calls = 0;
    assert_int_equal(r->head.fenced, 1);
    assert_int_equal(rc_calls(r, 0, 10), 10);
    kymo_recorder_close(r);
    assert_int_equal(expedited_calls + global_calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_command_does_too),
        cmocka_unit_test(it_is_tried_again),
        cmocka_unit_test(where_it_never_worked_producers_pay),
    };

    return cmocka_run_group_tests_name("quiesce", tests, rc_setup, rc_teardown);
}
