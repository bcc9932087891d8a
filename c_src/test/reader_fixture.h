/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of the reader: a separate folder for each test, and a reader of the recording
 * that testrec.h has written there. For test files only, each of which has its own folder.
 * Single-threaded.
 */
#ifndef READER_FIXTURE_H
#define READER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "testrec.h"

#include "kymo_reader.h"

static char dir[64];

/* Set-up and tear-down of a test. */
static inline int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/kymo-unit-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static inline int drop_dir(void **state)
{
    (void)state;
    tr_remove(dir);
    return 0;
}

/* Fails the test if the recording is refused. */
static inline struct kymo_reader *open_written(void)
{
    struct kymo_reader *r;
    char err[256] = "";
    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        fail_msg("%s", err);
    return r;
}

static inline struct kymo_reader *open_it(const struct testrec *t)
{
    tr_write(t, dir);
    return open_written();
}

#endif
