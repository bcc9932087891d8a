/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_why_handled_before with random requests, compared with a count over all of them.
 */
#include "why_int.h"
#include "why_scene.h"

enum { SERVERS = 3, REQUESTS = 40, ROUNDS = 5000 };

static uint32_t next_random(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % below;
}

/* A handler that began at `handled` may go on, or end much later than those after it. */
static struct kymo_request random_request(uint32_t *state, uint64_t id)
{
    struct kymo_request q = {.id = id, .kind = KYMO_REQ_CALL, .client = PID(1), .ended = KYMO_REQ_REPLIED};
    q.server = PID(2 + next_random(state, SERVERS));
    q.sent = START + next_random(state, 30);
    q.fetched = q.handled = q.sent + next_random(state, 10);
    q.handled_end = next_random(state, 4) == 0 ? KYMO_NO_TIME : q.handled + next_random(state, 5);
    if (next_random(state, 8) == 0)
        q.handled_end = q.handled + next_random(state, 60);
    q.replied = next_random(state, 3) == 0 ? KYMO_NO_TIME : q.handled + next_random(state, 40);
    q.received = q.replied;
    return q;
}

static uint32_t count(const struct kymo_request *all, const struct kymo_request *q)
{
    uint32_t n = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        int64_t end = all[i].handled_end != KYMO_NO_TIME ? all[i].handled_end : all[i].replied;
        bool went_on = end == KYMO_NO_TIME ? all[i].handled > q->sent : end > q->sent;
        n += all[i].id != q->id && all[i].server == q->server && all[i].handled < q->handled &&
             (went_on || all[i].handled > q->sent);
    }
    return n;
}

static void equals_a_count(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_request all[REQUESTS];
    uint32_t seed = 1, found = 0;
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    open_recording(&x);
    for (int round = 0; round < ROUNDS; round++) {
        struct kymo_why *w = kymo_why_new(x.r);
        assert_non_null(w);
        struct kymo_analysis_sink sink = kymo_why_sink(w);
        for (size_t i = 0; i < REQUESTS; i++) {
            all[i] = random_request(&seed, i + 1);
            sink.request(sink.arg, &all[i]);
        }
        assert_true(kymo_why_sort(w));
        for (size_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(kymo_why_handled_before(w, &all[i]), count(all, &all[i]));
            found += count(all, &all[i]) > 0;
        }
        kymo_why_free(w);
    }
    assert_true(found > ROUNDS);
    close_scene(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(equals_a_count, make_dir, drop_dir)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
