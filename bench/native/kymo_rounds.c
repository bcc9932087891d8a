/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo_rounds DIR MEMORY counter|monotonic: kymo's recorder, as its NIF calls it, in rounds.h.
 * An event is a link: two 64-bit integers. The policy is overwrite. Status 1 if an event is lost.
 *
 * Linked with --wrap=kymo_clock_choose, so that the counter is used even if the kernel does not
 * use it as its clock source. --chosen prints the clock that the recorder would use.
 */
#include <stdlib.h>
#include <string.h>

#include "kymo_writer.h"
#include "rounds.h"

enum kymo_clock __real_kymo_clock_choose(enum kymo_clock asked);
enum kymo_clock __wrap_kymo_clock_choose(enum kymo_clock asked);

enum kymo_clock __wrap_kymo_clock_choose(enum kymo_clock asked)
{
    return asked;
}

static struct kymo_recorder *recorder;

__attribute__((noinline)) void run(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct kymo_writer *w;
        uint8_t *p;

        OPAQUE(i);
        w = kymo_writer_get(recorder);
        if (w == NULL)
            continue;
        p = kymo_reserve(w, KYMO_E_LINK, 16);
        if (p != NULL)
            kymo_commit(w, kymo_put64(kymo_put64(p, i), i + 1));
        kymo_writer_put(w);
    }
}

int main(int argc, char **argv)
{
    struct kymo_open_error why;
    struct kymo_options o;
    struct kymo_info info;
    uint64_t events;
    int rc;

    if (argc == 2 && strcmp(argv[1], "--chosen") == 0) {
        puts(__real_kymo_clock_choose(KYMO_CLOCK_COUNTER) == KYMO_CLOCK_COUNTER ? "counter" : "monotonic");
        return 0;
    }
    if (argc != 4)
        return 2;
    kymo_options_init(&o);
    o.dir = argv[1];
    o.policy = KYMO_OVERWRITE;
    o.clock = strcmp(argv[3], "counter") == 0 ? KYMO_CLOCK_COUNTER : KYMO_CLOCK_MONOTONIC;
    o.n_slots = 1;
    o.dict_bytes = 65536;
    o.memory = strtoull(argv[2], NULL, 10);
    rc = kymo_recorder_open(&o, &recorder, &why);
    if (rc != 0) {
        (void)fprintf(stderr, "kymo_rounds: %s: %s %s\n", o.dir, strerror(-rc),
                      why.option != NULL ? why.option : "");
        return 1;
    }
    events = rounds();
    (void)kymo_recorder_stop(recorder, KYMO_R_STOP);
    kymo_recorder_info(recorder, &info);
    kymo_recorder_close(recorder);
    if (info.events != events)
        (void)fprintf(stderr, "kymo_rounds: %" PRIu64 " of %" PRIu64 " events recorded\n", info.events,
                      events);
    return info.events != events;
}
