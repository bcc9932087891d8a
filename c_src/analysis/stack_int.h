/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the shadow stack (kymo_stack.h). stack.c has the frames and what is inferred and learned;
 * stack_depth.c has the events with the depth of the process's stack.
 */
#ifndef KYMO_STACK_INT_H
#define KYMO_STACK_INT_H

#include "kymo_stack.h"

/* Limits of the searches, so that none takes quadratic time, whatever the recording. */
#define KYMO_SEARCH_MAX 4096u

/* ---- stack.c ---- */

/* The new frame, or NULL: no memory. */
struct kymo_frame *kymo_stack_push(struct kymo_stack *st, uint8_t kind, uint32_t mfa);
/* Removes the topmost frame. */
void kymo_stack_pop(struct kymo_stack *st, kymo_leave_fn leave, void *arg, enum kymo_leave why);
/* Ends open collections. No other event of the process can occur during a collection, so the
 * event that ended it was lost. */
void kymo_stack_end_gc(struct kymo_stack *st, kymo_leave_fn leave, void *arg);

/* ---- stack_depth.c: as the functions of kymo_stack.h, with no collection open ---- */

struct kymo_frame *kymo_stack_call_at(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t mfa,
                                      uint32_t words, kymo_leave_fn leave, void *arg);
bool kymo_stack_return_from_at(struct kymo_stack *st, const struct kymo_facts *facts, uint32_t mfa,
                               uint32_t words, kymo_leave_fn leave, void *arg);
/* Ends the frames at a greater depth. */
void kymo_stack_end_above(struct kymo_stack *st, uint32_t words, kymo_leave_fn leave, void *arg);

#endif
