/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock plugin for LTTng-UST (LTTNG_UST_CLOCK_PLUGIN): the processor's counter, as kymo reads
 * it. Only its cost is of interest, so the frequency is nominal.
 */
#include <stdlib.h>
#include <string.h>

#include <lttng/ust-clock.h>

#include "kymo_writer.h"

static uint64_t frequency(void)
{
    return 1000000000u;
}

static int uuid(char *out)
{
    memcpy(out, "00000000-0000-0000-0000-000000000001", LTTNG_UST_UUID_STR_LEN);
    return 0;
}

static const char *name(void)
{
    return "counter";
}

static const char *description(void)
{
    return "The processor's counter";
}

void lttng_ust_clock_plugin_init(void);

void lttng_ust_clock_plugin_init(void)
{
    if (lttng_ust_trace_clock_set_read64_cb(kymo_counter) != 0 ||
        lttng_ust_trace_clock_set_freq_cb(frequency) != 0 || lttng_ust_trace_clock_set_uuid_cb(uuid) != 0 ||
        lttng_ust_trace_clock_set_name_cb(name) != 0 ||
        lttng_ust_trace_clock_set_description_cb(description) != 0 ||
        lttng_ust_enable_trace_clock_override() != 0)
        abort();
}
