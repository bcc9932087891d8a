/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions on a single fact: the parts of a request, and the names of kinds and ends.
 */
#include "kymo_analysis.h"

int64_t kymo_request_total(const struct kymo_request *q)
{
    return kymo_since(q->sent, q->kind == KYMO_REQ_CAST ? q->handled_end : q->received);
}

int64_t kymo_request_queued(const struct kymo_request *q)
{
    return kymo_since(q->sent, q->handled);
}

int64_t kymo_request_handling(const struct kymo_request *q)
{
    return kymo_since(q->handled, q->kind == KYMO_REQ_CAST ? q->handled_end : q->replied);
}

int64_t kymo_request_done(const struct kymo_request *q)
{
    return q->handled_end != KYMO_NO_TIME ? q->handled_end : q->replied;
}

int64_t kymo_request_reply(const struct kymo_request *q)
{
    bool none = q->kind == KYMO_REQ_CAST || q->ended == KYMO_REQ_TIMEOUT;
    return none ? KYMO_NO_TIME : kymo_since(q->replied, q->received);
}

const char *kymo_request_kind_name(unsigned kind)
{
    static const char *const names[] = {"?", "call", "cast", "io", "spawn"};
    return names[kind <= KYMO_REQ_SPAWN ? kind : 0];
}

const char *kymo_request_end_name(unsigned end)
{
    static const char *const names[] = {"replied", "down", "open", "no_reply", "gone", "timeout"};
    return end <= KYMO_REQ_TIMEOUT ? names[end] : "?";
}

const char *kymo_span_end_name(unsigned end)
{
    static const char *const names[] = {"return", "exception", "tail", "hibernate",
                                        "exit",   "lost",      "open", "moment"};
    return end <= KYMO_SPAN_MOMENT ? names[end] : "?";
}
