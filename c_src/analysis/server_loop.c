/* SPDX-License-Identifier: Apache-2.0
 */
#include "kymo_server_loop.h"

bool kymo_is_server_loop(const struct kymo_reader *r, uint32_t mfa)
{
    static const char *const loops[][2] = {{"gen_server", "loop"},
                                           {"gen_statem", "loop_receive"},
                                           {"gen_event", "fetch_msg"},
                                           {"gen_server2", "process_next_msg"}}; /* of RabbitMQ */
    struct kymo_mfa m;
    if (!kymo_reader_mfa(r, mfa, &m))
        return false;
    struct kymo_text module = kymo_reader_atom(r, m.module), function = kymo_reader_atom(r, m.function);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        if (kymo_text_is(module, loops[i][0]) && kymo_text_is(function, loops[i][1]))
            return true;
    }
    return false;
}
