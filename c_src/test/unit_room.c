/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the room for files in memory, with folders in place of /proc and /sys/fs/cgroup.
 */
#include <sys/stat.h>

#include "kymo_internal.h"
#include "rec_check.h"

static char proc[512], cgroup[512];

static void file(const char *root, const char *name, const char *text)
{
    char path[1024];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = strchr(path + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int folders(void **state)
{
    static unsigned n;
    char name[32];

    (void)state;
    (void)snprintf(name, sizeof name, "proc%u", n);
    (void)snprintf(proc, sizeof proc, "%s", rc_path(name));
    (void)snprintf(name, sizeof name, "cgroup%u", n++);
    (void)snprintf(cgroup, sizeof cgroup, "%s", rc_path(name));
    assert_int_equal(mkdir(proc, 0700), 0);
    assert_int_equal(mkdir(cgroup, 0700), 0);
    return 0;
}

static void nothing_is_known(void **state)
{
    (void)state;
    assert_true(kymo_memory_room(proc, cgroup) == UINT64_MAX / 2);
}

static void of_the_machine(void **state)
{
    (void)state;
    file(proc, "meminfo", "MemTotal:        4000 kB\nMemFree: 10 kB\nMemAvailable:    2000 kB\n");
    assert_int_equal(kymo_memory_room(proc, cgroup), 1000 * 1024);
}

/* The limit is that of a parent; the group has none, and its parent's caches can be dropped. */
static void of_a_group(void **state)
{
    (void)state;
    file(proc, "meminfo", "MemAvailable:    2000 kB\n");
    file(proc, "self/cgroup", "0::/a/b\n");
    file(cgroup, "a/b/memory.max", "max\n");
    file(cgroup, "a/b/memory.current", "500\n");
    file(cgroup, "a/memory.max", "10000\n");
    file(cgroup, "a/memory.current", "9000\n");
    file(cgroup, "a/memory.stat", "anon 1\nactive_file 7\ninactive_file 3000\n");
    assert_int_equal(kymo_memory_room(proc, cgroup), 2000);
    file(cgroup, "a/b/memory.max", "600\n");
    assert_int_equal(kymo_memory_room(proc, cgroup), 50);
    file(cgroup, "a/b/memory.max", "400\n");
    assert_int_equal(kymo_memory_room(proc, cgroup), 0);
}

/* In a container, the path may be that of the host, and only the group itself is mounted. */
static void of_a_container(void **state)
{
    (void)state;
    file(proc, "self/cgroup", "2:cpu,cpuacct:/x\n9:memory:/docker/1234\n0::/\n");
    file(cgroup, "memory/memory.limit_in_bytes", "8000\n");
    file(cgroup, "memory/memory.usage_in_bytes", "7000\n");
    file(cgroup, "memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
    assert_int_equal(kymo_memory_room(proc, cgroup), 1000);
}

static void of_this_folder(void **state)
{
    int fd = open(rc_path(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_true(kymo_file_room(fd) > 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_known, folders),
        cmocka_unit_test_setup(of_the_machine, folders),
        cmocka_unit_test_setup(of_a_group, folders),
        cmocka_unit_test_setup(of_a_container, folders),
        cmocka_unit_test(of_this_folder),
    };

    return cmocka_run_group_tests_name("room", tests, rc_setup, rc_teardown);
}
