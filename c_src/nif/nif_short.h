/* SPDX-License-Identifier: Apache-2.0
 *
 * The short paths of the raw interface: events without contents or options, whose records are
 * written directly. nif_put_event makes the same records, and all others. */
#ifndef KYMO_NIF_SHORT_H
#define KYMO_NIF_SHORT_H

#include "erl_nif_tracer.h"
#include "nif_put.h"

/* Records the event, or counts its loss. Returns false if it has no short path, or has contents or
 * options; then nothing has been done. id is that of its tag in its class. more: it has the members
 * of version 2. Between nif_begin and kymo_writer_put only. */
bool nif_short_put(const struct nif_event *ev, unsigned id, const ErlNifTraceEvent *e, bool more);

#endif
