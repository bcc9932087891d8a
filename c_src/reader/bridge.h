/* SPDX-License-Identifier: Apache-2.0
 *
 * Two clocks, related by messages that were sent on one side and received on the other.
 * A bridge converts times of the `other` clock to the `base` clock such that no message
 * is received before it was sent, in either direction. Times are nanoseconds.
 *
 * The difference of the clocks is a line: an offset, and a drift if the messages show one.
 * If no line satisfies all messages, because the drift itself changed, the difference
 * follows the messages from one to the next. Converted times keep their order.
 */
#ifndef KYMO_BRIDGE_H
#define KYMO_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message with one end on each side. */
struct kymo_bridge_message {
    int64_t other, base; /* when it was sent and received, on the clocks of these sides */
    bool to_other;       /* it was received on the other side */
};

struct kymo_bridge_knot {
    int64_t at;  /* on the other clock */
    double more; /* added to the line there */
};

/* base = other - offset - drift * (other - at) - what the knots add */
struct kymo_bridge {
    int64_t at, offset;
    double drift;
    struct kymo_bridge_knot *knots; /* in order of time, NULL = none */
    size_t n_knots, hint;
    int64_t uncertainty; /* upper bound of half the distance between the limits; 0 = not known */
};

/* Clocks drift apart by less: each of two by 500 ppm at most, as adjtimex(2) limits it. */
#define KYMO_BRIDGE_DRIFT_MAX 1e-3

/* Computes the bridge from n messages in any order, and reorders them. Returns 0, -ENODATA if
 * all have the same direction, -ERANGE if they contradict each other, or -ENOMEM. */
int kymo_bridge_fit(struct kymo_bridge *b, struct kymo_bridge_message *m, size_t n);
/* A constant difference: `offset` (other - base), changed as little as messages of one
 * direction require. */
void kymo_bridge_constant(struct kymo_bridge *b, int64_t offset, const struct kymo_bridge_message *m,
                          size_t n);
int64_t kymo_bridge_convert(struct kymo_bridge *b, int64_t other);
void kymo_bridge_free(struct kymo_bridge *b);

#endif
