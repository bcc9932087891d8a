/* SPDX-License-Identifier: Apache-2.0
 *
 * Readable names of processes, functions and modules. They come from the dictionary of the
 * recording and from the events passed to kymo_naming_event. Single-threaded; memory is bounded by
 * the dictionary and by KYMO_NAMED_MAX processes.
 *
 * The name of a process is the first of these that is known: its registered name; its label; the
 * function that it really runs (proc_lib's initial call: rabbit_channel:init/1, not
 * proc_lib:init_p/5); the function with which it was spawned; its pid. A process without a
 * registered name also gets its most informative relative: " for " the process that it works for
 * (the head of $callers, if more than its pid is known), or " under " its nearest ancestor with a
 * name or code of its own. On a node that runs Elixir, modules and functions of Elixir are written
 * in Elixir's syntax: MyApp.Worker.run/1.
 */
#ifndef KYMO_NAMING_H
#define KYMO_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

/* Maximum number of processes named by events; when it is exceeded, all of them are dropped. */
#define KYMO_NAMED_MAX 262144u
/* Maximum number of ancestors that are examined. */
#define KYMO_ANCESTORS_MAX 16u

struct kymo_naming;

/* Returns NULL if there is no memory. The reader must stay open as long as the naming is used. */
struct kymo_naming *kymo_naming_new(const struct kymo_reader *r);
void kymo_naming_free(struct kymo_naming *n);
/* Switches to the names of a later state of the same recording. Names from events are kept.
 * False if there is no memory; then nothing has changed. */
bool kymo_naming_reader(struct kymo_naming *n, const struct kymo_reader *r);
/* Learns from spawned, open and register; other events are ignored. Fits the member
 * `event` of struct kymo_analysis_sink, with the naming as arg. */
void kymo_naming_event(void *naming, const struct kymo_event *ev);
/* The parts of the names below: *atom is the registered name, or the driver of a port; *mfa is the
 * function that the process runs. 0 = unknown. */
void kymo_naming_best(const struct kymo_naming *n, uint64_t ident, uint32_t *atom, uint32_t *mfa);
/* Whether the process is one of kymo's own: of a recorder or its triggers, of the part of kymo attach that
 * runs in the node, in the node that attaches, or spawned by one of these. Known by the function that it
 * runs, or by its registered name. */
bool kymo_naming_is_own(const struct kymo_naming *n, uint64_t ident);
/* Whether the node ran Elixir. */
bool kymo_naming_elixir(const struct kymo_naming *n);

/* The functions below write a NUL-terminated UTF-8 string, cut to size, and return its length in
 * buf. */

/* "<0.12.0> name", "<0.12.0> shop:init/1 under shop_sup", or the ident alone. */
size_t kymo_name_process(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
/* The name alone, which is that of the role; the ident if there is none. */
size_t kymo_name_short(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
/* The role of a process, which processes of the same kind share: the registered name, the callback
 * module's function, or the function that was spawned; the kind of ident if none is known. A
 * function that processes of any kind run (erlang:apply/2 and a few others) is followed by a
 * relative: "erlang:apply/2 under shop_sup". Two processes have the same role if kymo_naming_role
 * returns the same number; kymo_role_is_known returns whether the role is more than the kind of
 * ident. */
size_t kymo_name_role(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size);
uint64_t kymo_naming_role(const struct kymo_naming *n, uint64_t ident);
bool kymo_role_is_known(uint64_t role);
size_t kymo_name_of_role(const struct kymo_naming *n, uint64_t role, char *buf, size_t size);
/* lists:map/2, Enum.map/2; "?" if unknown. */
size_t kymo_name_function(const struct kymo_naming *n, uint32_t mfa, char *buf, size_t size);
/* lists, Enum. */
size_t kymo_name_module(const struct kymo_naming *n, uint32_t atom, char *buf, size_t size);

/* Whether a name matches what the user asked for: lists:map/2, lists:map, lists, or a pattern with
 * *, ? and [. */
bool kymo_name_fits(const char *name, const char *wanted);
/* The same for a function, in the syntax of Erlang or Elixir. */
bool kymo_function_fits(const struct kymo_naming *n, uint32_t mfa, const char *wanted);

#endif
