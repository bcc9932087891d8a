/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the difference of the clocks, d = other - base. Each message is a limit: a message to
 * the other side shows that d was at most received - sent when it was received; a message from
 * there shows that d was at least sent - received when it was sent.
 */
#include "bridge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEARCH_STEPS = 60 };

/* Wraps on overflow, because damaged recordings may have any times. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, double b)
{
    if (b > -9e18 && b < 9e18)
        a = (int64_t)((uint64_t)a + (uint64_t)llround(b));
    return a;
}

static int64_t difference(const struct kymo_bridge_message *m)
{
    return minus(m->other, m->base);
}

/* Time and limit relative to the bridge's, exact for some 100 days. */
static double time_of(const struct kymo_bridge *b, const struct kymo_bridge_message *m)
{
    return (double)minus(m->other, b->at);
}

static double limit_of(const struct kymo_bridge *b, const struct kymo_bridge_message *m)
{
    return (double)minus(difference(m), b->offset);
}

/* The distance between the upper and lower limits along a line with this drift; negative if no
 * such line satisfies all of them. *middle is the value of the best line at time 0. The result
 * is a concave function of drift. */
static double room(const struct kymo_bridge *b, const struct kymo_bridge_message *m, size_t n, double drift,
                   double *middle)
{
    double high = INFINITY, low = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double v = limit_of(b, &m[i]) - drift * time_of(b, &m[i]);
        if (m[i].to_other)
            high = v < high ? v : high;
        else
            low = v > low ? v : low;
    }
    *middle = low + (high - low) / 2;
    return high - low;
}

static double widest(const struct kymo_bridge *b, const struct kymo_bridge_message *m, size_t n)
{
    const double golden = 0.6180339887498949;
    double low = -KYMO_BRIDGE_DRIFT_MAX, high = KYMO_BRIDGE_DRIFT_MAX, middle;
    double x = high - golden * (high - low), y = low + golden * (high - low);
    double at_x = room(b, m, n, x, &middle), at_y = room(b, m, n, y, &middle);
    for (unsigned i = 0; i < SEARCH_STEPS; i++) {
        if (at_x >= at_y) {
            high = y;
            y = x;
            at_y = at_x;
            x = high - golden * (high - low);
            at_x = room(b, m, n, x, &middle);
        } else {
            low = x;
            x = y;
            at_x = at_y;
            y = low + golden * (high - low);
            at_y = room(b, m, n, y, &middle);
        }
    }
    return (low + high) / 2;
}

static int by_time(const void *a, const void *b)
{
    const struct kymo_bridge_message *x = a, *y = b;
    return x->other < y->other ? -1 : x->other > y->other;
}

/* Computes the limits at each message, given that the difference changes by less than
 * KYMO_BRIDGE_DRIFT_MAX, and makes knots from the middle between them. */
static int follow(struct kymo_bridge *b, struct kymo_bridge_message *m, size_t n)
{
    double *high = malloc(n * sizeof *high), *low = malloc(n * sizeof *low);
    struct kymo_bridge_knot *knots = malloc(n * sizeof *knots);
    int rc = high != NULL && low != NULL && knots != NULL ? 0 : -ENOMEM;
    double most = 0;
    if (rc == 0)
        qsort(m, n, sizeof *m, by_time);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double line = b->drift * time_of(b, &m[i]), v = limit_of(b, &m[i]) - line;
        double slack = i > 0 ? KYMO_BRIDGE_DRIFT_MAX / 2 * (double)minus(m[i].other, m[i - 1].other) : 0;
        high[i] = i > 0 ? high[i - 1] + slack : INFINITY;
        low[i] = i > 0 ? low[i - 1] - slack : -INFINITY;
        if (m[i].to_other)
            high[i] = v < high[i] ? v : high[i];
        else
            low[i] = v > low[i] ? v : low[i];
    }
    for (size_t i = rc == 0 ? n - 1 : 0; i-- > 0;) {
        double slack = KYMO_BRIDGE_DRIFT_MAX / 2 * (double)minus(m[i + 1].other, m[i].other);
        high[i] = fmin(high[i], high[i + 1] + slack);
        low[i] = fmax(low[i], low[i + 1] - slack);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (low[i] > high[i])
            rc = -ERANGE;
        knots[i] = (struct kymo_bridge_knot){.at = m[i].other, .more = low[i] + (high[i] - low[i]) / 2};
        most = fmax(most, (high[i] - low[i]) / 2);
    }
    free(high);
    free(low);
    if (rc != 0) {
        free(knots);
        return rc;
    }
    b->knots = knots;
    b->n_knots = n;
    b->uncertainty = plus(1, most);
    return 0;
}

int kymo_bridge_fit(struct kymo_bridge *b, struct kymo_bridge_message *m, size_t n)
{
    bool up = false, down = false;
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < n; i++) {
        up = up || m[i].to_other;
        down = down || !m[i].to_other;
    }
    if (!up || !down)
        return -ENODATA;
    b->at = m[0].other;
    b->offset = difference(&m[0]);
    double middle, straight = room(b, m, n, 0, &middle), ignored;
    double drift = widest(b, m, n), best = room(b, m, n, drift, &ignored);
    /* Few messages in a short time allow almost any drift. Then no drift is assumed. */
    if (straight < best / 2 || straight <= 0) {
        b->drift = drift;
        middle = ignored;
        straight = best;
    }
    if (straight < 0) {
        b->offset = plus(b->offset, middle);
        return follow(b, m, n);
    }
    b->offset = plus(b->offset, middle);
    b->uncertainty = plus(1, straight / 2);
    return 0;
}

void kymo_bridge_constant(struct kymo_bridge *b, int64_t offset, const struct kymo_bridge_message *m,
                          size_t n)
{
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < n; i++) {
        int64_t limit = difference(&m[i]);
        if (m[i].to_other ? offset > limit : offset < limit)
            offset = limit;
    }
    b->offset = offset;
}

/* The value that the knots add at a time, by linear interpolation. */
static double added(struct kymo_bridge *b, int64_t at)
{
    const struct kymo_bridge_knot *k = b->knots;
    if (at <= k[0].at)
        return k[0].more;
    if (at >= k[b->n_knots - 1].at)
        return k[b->n_knots - 1].more;
    size_t i = b->hint;
    if (i + 1 >= b->n_knots || k[i].at > at || k[i + 1].at <= at) {
        size_t low = 0, high = b->n_knots - 1;
        while (high - low > 1) {
            size_t mid = low + (high - low) / 2;
            if (k[mid].at <= at)
                low = mid;
            else
                high = mid;
        }
        i = b->hint = low;
    }
    return k[i].more +
           (k[i + 1].more - k[i].more) * ((double)minus(at, k[i].at) / (double)minus(k[i + 1].at, k[i].at));
}

int64_t kymo_bridge_convert(struct kymo_bridge *b, int64_t other)
{
    double more = b->drift * (double)minus(other, b->at);
    if (b->knots != NULL)
        more += added(b, other);
    return plus(minus(other, b->offset), -more);
}

void kymo_bridge_free(struct kymo_bridge *b)
{
    free(b->knots);
    memset(b, 0, sizeof *b);
}
