/* SPDX-License-Identifier: Apache-2.0 */
#include "slow.h"

#include <stdlib.h>

#include "json.h"

int report_slow_init(struct report_slow *x, const struct cli_analysis *a, uint32_t most)
{
    *x = (struct report_slow){.a = a};
    return report_heap_init(&x->slowest, most) ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

void report_slow_free(struct report_slow *x)
{
    free(x->slowest.item);
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct report_slow *x = arg;
    int64_t start;
    if (ev->id != KYMO_E_SLOW || !kymo_slow_start(ev, &start))
        return;
    struct report_stretch s = {.id = x->seen++,
                               .start = start,
                               .end = ev->ns,
                               .process = ev->who,
                               .other = KYMO_IDENT_NONE,
                               .mfa = kymo_canonical(x->a->r, ev->mfa)};
    report_heap_add(&x->slowest, &s);
}

struct kymo_analysis_sink report_slow_sink(struct report_slow *x)
{
    return (struct kymo_analysis_sink){.arg = x, .event = on_event};
}

void report_slow_json(struct report_slow *x, const char *key)
{
    if (x->seen == 0)
        return;
    report_heap_sort(&x->slowest);
    cli_json_open(key, '{');
    cli_json_uint("rows_in_all", x->seen);
    cli_json_open("rows", '[');
    for (uint32_t i = 0; i < x->slowest.n; i++) {
        const struct report_stretch *s = &x->slowest.item[i];
        cli_json_open(NULL, '{');
        cli_json_process(x->a, "process", s->process);
        cli_json_function(x->a, "function", s->mfa);
        cli_json_since(x->a, "start_ns", s->start);
        cli_json_ns("total_ns", s->end - s->start);
        cli_json_close('}');
    }
    cli_json_close(']');
    cli_json_close('}');
}
