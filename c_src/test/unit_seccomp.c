/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the recorder under a filter of system calls: one that appears after the recorder has looked for
 * it has calls refused, and one from the beginning would end the process.
 */
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "deny.h"
#include "rec_check.h"

/* The part of a forked child: 0 if a recorder records, gives up its files and stops. */
static int records(const char *name, enum kymo_policy policy)
{
    struct kymo_options o = rc_options(rc_path(name), policy);
    struct kymo_open_error why;
    struct kymo_recorder *r = NULL;

    rc_gates_off = true;
    if (kymo_recorder_open(&o, &r, &why) != 0)
        return 1;
    if (rc_calls(r, 0, 100) != 100)
        return 2;
    if (kymo_get(&r->writers[0].slot->os_thread) != (uint64_t)getpid())
        return 3;
    if (kymo_recorder_stop(r, KYMO_R_STOP) != 0)
        return 4;
    kymo_recorder_close(r);
    return 0;
}

/* What a child ended with: its status, or 128 + its signal. */
static int child(const char *name, long call, uint32_t action, bool known)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (known && kymo_filtered())
            _exit(0); /* the tests run under a filter, which they can't be without */
        _exit(deny(call, action) ? records(name, KYMO_OVERWRITE) + records(name + 1, KYMO_DISCARD) : 9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool can_filter(const char *test)
{
    if (RC_SANITIZED) {
        fprintf(stderr, "%s: skipped, sanitizers make system calls of their own\n", test);
        return false;
    }
    return !rc_emulated(test);
}

static void calls_are_refused(void **state)
{
    const int errors[] = {EPERM, ENOSYS, EINVAL, EACCES};

    (void)state;
    if (!can_filter("calls_are_refused"))
        skip();
    for (size_t i = 0; i < DENY_CALLS; i++) {
        for (size_t e = 0; deny_calls[i].of_recorder && e < sizeof errors / sizeof *errors; e++) {
            char name[64];
            int rc;

            (void)snprintf(name, sizeof name, "%s-%d", deny_calls[i].name, errors[e]);
            rc = child(name, deny_calls[i].nr, SECCOMP_RET_ERRNO | (uint32_t)errors[e], true);
            if (rc != 0)
                fail_msg("%s: %d", name, rc);
        }
    }
}

/* Those that have a replacement. */
static void calls_would_kill(void **state)
{
    (void)state;
    if (!can_filter("calls_would_kill"))
        skip();
    for (size_t i = 0; i < DENY_CALLS; i++) {
        int rc = deny_calls[i].replaced
                     ? child(deny_calls[i].name, deny_calls[i].nr, SECCOMP_RET_KILL_PROCESS, false)
                     : 0;

        if (rc != 0)
            fail_msg("%s: %d", deny_calls[i].name, rc);
    }
}

static void a_mount_in_memory(void **state)
{
    const char *path = rc_path("mountinfo");
    FILE *f = fopen(path, "we");

    (void)state;
    assert_non_null(f);
    assert_true(fputs("22 1 8:1 / / rw shared:1 - ext4 /dev/tmpfs rw\n"
                      "30 22 0:26 / /dev/shm rw shared:4 master:2 - tmpfs tmpfs rw,size=64k\n"
                      "31 22 0:27 / /mnt rw - tmpfsx none rw\n"
                      "32 22 0:28 / /ram rw - ramfs none rw\n",
                      f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_false(kymo_mounted_in_memory(path, makedev(8, 1)));
    assert_true(kymo_mounted_in_memory(path, makedev(0, 26)));
    assert_false(kymo_mounted_in_memory(path, makedev(0, 27)));
    assert_true(kymo_mounted_in_memory(path, makedev(0, 28)));
    assert_false(kymo_mounted_in_memory(path, makedev(0, 29)));
    assert_false(kymo_mounted_in_memory(rc_path("none"), makedev(0, 26)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_refused),
        cmocka_unit_test(calls_would_kill),
        cmocka_unit_test(a_mount_in_memory),
    };

    return cmocka_run_group_tests_name("seccomp", tests, rc_setup, rc_teardown);
}
