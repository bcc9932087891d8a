/* SPDX-License-Identifier: Apache-2.0
 *
 * Names as people know them. Learns from the events that it is shown, on top of what
 * the dictionary of the recording says. Single threaded; memory is bounded by the
 * dictionary and by KYMO_NAMED_MAX processes.
 *
 * A process is called, whatever comes first: its registered name; its label; the
 * function that it really runs (proc_lib's initial call: rabbit_channel:init/1, not
 * proc_lib:init_p/5); the function that it was spawned with; its pid. One without a name
 * also has the relative that says most about it: " for " the process that it works for
 * (head of $callers, where that is known by more than a pid), or " under " its nearest
 * ancestor with a name or code of its own. On a node that runs Elixir, modules and functions of Elixir are written as Elixir does:
 * MyApp.Worker.run/1.
 */
#ifndef KYMO_NAMING_H
#define KYMO_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

/* Processes that events have named; when there are more all of them are forgotten. */
#define KYMO_NAMED_MAX 262144u
/* Ancestors that are looked at. */
#define KYMO_ANCESTORS_MAX 16u

struct kymo_naming;

/* NULL: no memory. The reader must live as long. */
struct kymo_naming *kymo_naming_new(const struct kymo_reader *r);
void kymo_naming_free(struct kymo_naming *n);
/* Names are those that r has from now on, a later reading of the same recording. False: no
 * memory, nothing has changed. */
bool kymo_naming_read(struct kymo_naming *n, const struct kymo_reader *r);
/* Learns from spawned, open and register; other events are ignored. Fits the member
 * `event` of struct kymo_analysis_sink, with the naming as arg. */
void kymo_naming_event(void *naming, const struct kymo_event *ev);
/* What the names below are made of: a registered name, or the driver of a port, and the
 * function that the process runs; 0 = not known. */
void kymo_naming_best(const struct kymo_naming *n, uint64_t ident, uint32_t *atom, uint32_t *mfa);
/* Whether the node ran Elixir. */
bool kymo_naming_elixir(const struct kymo_naming *n);

/* All of these: NUL terminated, cut to size, UTF-8; return the length in buf. */

/* "<0.12.0> name", "<0.12.0> shop:init/1 under shop_sup", or the ident alone. */
size_t kymo_name_process(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
/* The name alone, which is that of the role; the ident when there is none. */
size_t kymo_name_short(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
/* What processes of the same kind have in common: the registered name, the callback
 * module's function or the function that was spawned; the kind of ident when none is
 * known. A function that processes of all kinds run, erlang:apply/2 and a few others,
 * comes with a relative: "erlang:apply/2 under shop_sup". Two processes have the same
 * role when kymo_naming_role is the same; kymo_role_is_known says whether it is more
 * than the kind of ident. */
size_t kymo_name_role(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
uint64_t kymo_naming_role(const struct kymo_naming *n, uint64_t ident);
bool kymo_role_is_known(uint64_t role);
size_t kymo_name_of_role(const struct kymo_naming *n, uint64_t role, char *buf, size_t size);
/* lists:map/2, Enum.map/2; "?" when it is not known. */
size_t kymo_name_function(const struct kymo_naming *n, uint32_t mfa, char *buf, size_t size);
/* lists, Enum. */
size_t kymo_name_module(const struct kymo_naming *n, uint32_t atom, char *buf, size_t size);

#endif
