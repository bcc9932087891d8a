/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block that is tagged again, as it is when it is reallocated or taken from
 * the list of a fixed size allocator, can be in a carrier that another thread
 * is using. That thread changes flags in the header of the block, which must
 * therefore not be written. The page of the header is read-only here meanwhile.
 */

#include "testcase_driver.h"
#include "allocator_test.h"

char *
testcase_name(void)
{
    return "atags";
}

#ifdef __WIN32__

void
testcase_run(TestCaseState_t *tcs)
{
    testcase_skipped(tcs, "There is no mprotect()");
}

#else

#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#define BLOCKS 16

static char *page;
static size_t page_size;
static volatile sig_atomic_t is_written;

/* Then the instruction is executed again. */
static void
handle_segv(int sig, siginfo_t *info, void *context)
{
    char *addr = info->si_addr;

    (void) context;
    if (page <= addr && addr < page + page_size) {
        is_written = 1;
        mprotect(page, page_size, PROT_READ | PROT_WRITE);
    } else {
        signal(sig, SIG_DFL);
    }
}

void
testcase_run(TestCaseState_t *tcs)
{
    char *argv[] = {"-tsmbcs511", "-tmmbcs511", "-tsbct512", "-tatagstrue",
                    NULL};
    struct sigaction action, old_action;
    size_t size;
    Allctr_t *a;
    void *p[BLOCKS], *res;
    int i;

    page_size = (size_t) sysconf(_SC_PAGESIZE);
    size = 2 * page_size;
    a = START_ALC("atags_", 0, argv);
    ASSERT(tcs, a);
    tcs->extra = (void *) a;

    for (i = 0; i < BLOCKS; i++) {
        p[i] = ALLOC(a, size);
        ASSERT(tcs, p[i]);
    }
    page = (char *) UMEM2BLK(p[BLOCKS/2]);
    page -= (Ulong) page % page_size;
    /* The tag is in the end of the block. */
    ASSERT(tcs, page + page_size < (char *) p[BLOCKS/2] + size);

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = handle_segv;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ASSERT(tcs, sigaction(SIGSEGV, &action, &old_action) == 0);
    is_written = 0;
    ASSERT(tcs, mprotect(page, page_size, PROT_READ) == 0);
    res = REALLOC(a, p[BLOCKS/2], size);
    mprotect(page, page_size, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &old_action, NULL);

    ASSERT(tcs, res == p[BLOCKS/2]);
    ASSERT(tcs, !is_written);

    for (i = 0; i < BLOCKS; i++)
        FREE(a, p[i]);
    STOP_ALC(a);
    tcs->extra = NULL;
}

#endif

void
testcase_cleanup(TestCaseState_t *tcs)
{
    if (tcs->extra)
        STOP_ALC((Allctr_t *) tcs->extra);
}

ERL_NIF_INIT(atags, testcase_nif_funcs, testcase_nif_init,
             NULL, NULL, NULL);
