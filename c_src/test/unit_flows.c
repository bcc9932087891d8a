/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of matching receives with sends when many messages are pending. The result is compared with
 * that of a linear search in a list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kymo_flows.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, (n))

static uint64_t told[64];
static size_t n_told;

static void gone(void *arg, const struct kymo_flow_entry *e)
{
    (void)arg;
    told[n_told++ % 64] = e->id;
}

static void open_flows(struct kymo_flows *f)
{
    assert_int_equal(kymo_flows_init(f), 0);
    f->gone = gone;
    n_told = 0;
}

static struct kymo_message message(uint64_t from, uint64_t to, uint32_t size)
{
    return (struct kymo_message){
        .from = PID(from), .to = PID(to), .name = KYMO_IDENT_NONE, .ns = 1, .size = size};
}

/* More messages than fit, and in between ids that belong to no message. */
static void a_deep_mailbox(void **state)
{
    enum { DEPTH = 300000 };
    struct kymo_message m = message(1, 2, 7);
    struct kymo_flows f;
    uint64_t *ids = malloc(DEPTH * sizeof *ids);

    (void)state;
    assert_non_null(ids);
    open_flows(&f);
    for (unsigned i = 0; i < DEPTH; i++) {
        ids[i] = kymo_flows_send(&f, &m);
        (void)kymo_flows_id(&f);
    }
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(kymo_flows_receive(&f, &m), ids[i]);
    assert_int_equal(kymo_flows_receive(&f, &m), 0);
    assert_int_equal(f.evicted, 0);
    assert_int_equal(n_told, 0);
    kymo_flows_free(&f);
    free(ids);
}

/* A message that is never received is dropped only when its room is needed. */
static void the_oldest_goes(void **state)
{
    struct kymo_message stays = message(1, 2, 7), passes = message(3, 4, 7);
    struct kymo_flows f;
    uint64_t first, ids[4];

    (void)state;
    open_flows(&f);
    f.most = f.room = 4;
    first = kymo_flows_send(&f, &stays);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t id = kymo_flows_send(&f, &passes);
        assert_int_equal(kymo_flows_receive(&f, &passes), id);
    }
    assert_int_equal(n_told, 0);
    for (unsigned i = 0; i < 4; i++)
        ids[i] = kymo_flows_send(&f, &passes);
    assert_int_equal(n_told, 1);
    assert_int_equal(told[0], first);
    assert_int_equal(f.evicted, 1);
    assert_int_equal(kymo_flows_receive(&f, &stays), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(kymo_flows_receive(&f, &passes), ids[i]);
    kymo_flows_free(&f);
}

struct listed {
    uint64_t id, from, to;
    uint32_t size;
};

struct list {
    struct listed l[64];
    size_t n;
};

static void drop(struct list *l, size_t i)
{
    memmove(&l->l[i], &l->l[i + 1], (--l->n - i) * sizeof *l->l);
}

/* Takes the oldest matching message of the sender; older messages of that sender are dropped. */
static uint64_t receive(struct list *l, const struct kymo_message *m)
{
    for (size_t i = 0; i < l->n; i++) {
        uint64_t id = l->l[i].id;
        if (l->l[i].from != m->from || l->l[i].to != m->to || l->l[i].size != m->size)
            continue;
        for (size_t k = 0; k < l->n && l->l[k].id <= id;) {
            if (l->l[k].from == m->from && l->l[k].to == m->to)
                drop(l, k);
            else
                k++;
        }
        return id;
    }
    return 0;
}

static void like_a_list(void **state)
{
    enum { MOST = 40 };
    struct kymo_flows f;
    struct list l = {.n = 0};
    uint64_t x = 88172645463325252u;

    (void)state;
    open_flows(&f);
    f.most = f.room = MOST;
    for (unsigned round = 0; round < 300000; round++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        struct kymo_message m = message(1 + x % 4, 5 + (x >> 8) % 5, 1 + (x >> 16) % 2);
        unsigned what = (unsigned)(x >> 32) % 100;
        if (what < 55) {
            uint64_t id = kymo_flows_send(&f, &m);
            if (l.n == MOST)
                drop(&l, 0);
            l.l[l.n++] = (struct listed){id, m.from, m.to, m.size};
        } else if (what < 97) {
            assert_int_equal(kymo_flows_receive(&f, &m), receive(&l, &m));
        } else if (what < 99) {
            kymo_flows_exit(&f, m.to);
            for (size_t i = 0; i < l.n;) {
                if (l.l[i].to == m.to)
                    drop(&l, i);
                else
                    i++;
            }
        } else if (round % 50 == 0) {
            n_told = 0;
            kymo_flows_lost(&f);
            assert_int_equal(n_told, l.n);
            for (size_t i = 0; i < l.n; i++)
                assert_int_equal(told[i], l.l[i].id);
            l.n = 0;
        }
    }
    assert_true(f.evicted > 0);
    kymo_flows_free(&f);
}

/* The true fate of a numbered message. */
struct truth {
    uint64_t id; /* of its send; 0: the send was not recorded */
    uint64_t from, to;
    uint8_t node;
};

/* Messages of equal size between few processes on two nodes that use the same numbers. Sends and
 * receives are lost at random, and losses are noticed late or never: each receive is matched with
 * its own send, or with none if that was not recorded. */
static void numbers_survive_losses(void **state)
{
    enum { ROUNDS = 300000, RECEIVERS = 5, DEEP = 64 };
    struct kymo_flows f;
    struct truth waits[2][RECEIVERS][DEEP];
    size_t n[2][RECEIVERS] = {{0}}, matched = 0, unmatched = 0;
    static uint64_t number_of[2][RECEIVERS][DEEP];
    uint64_t x = 88172645463325252u, numbers[2] = {0, 0};

    (void)state;
    open_flows(&f);
    for (unsigned round = 0; round < ROUNDS; round++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint8_t node = (uint8_t)(x % 2);
        size_t to = (x >> 8) % RECEIVERS;
        bool lost = (x >> 16) % 5 == 0;
        struct kymo_message m = message(1 + (x >> 24) % 4 + 100u * node, 10 + to + 100u * node, 7);
        unsigned what = (unsigned)(x >> 32) % 100;
        m.node = node;
        if (what < 50 && n[node][to] < DEEP) {
            m.number = ++numbers[node];
            struct truth t = {lost ? 0 : kymo_flows_send(&f, &m), m.from, m.to, node};
            waits[node][to][n[node][to]] = t;
            number_of[node][to][n[node][to]++] = m.number;
        } else if (what < 99 && n[node][to] > 0) {
            struct truth t = waits[node][to][0];
            m.number = number_of[node][to][0];
            m.from = (x >> 40) % 2 == 0 ? KYMO_IDENT_NONE : t.from;
            n[node][to]--;
            memmove(waits[node][to], waits[node][to] + 1, n[node][to] * sizeof t);
            memmove(number_of[node][to], number_of[node][to] + 1, n[node][to] * sizeof m.number);
            if (lost)
                continue;
            assert_int_equal(kymo_flows_receive(&f, &m), t.id);
            matched += t.id != 0;
            unmatched += t.id == 0;
            if (t.id != 0)
                assert_int_equal(f.found.from, t.from);
        } else if (what == 99 && round % 10 == 0) {
            kymo_flows_lost(&f);
        }
    }
    assert_true(matched > ROUNDS / 5);
    assert_true(unmatched > ROUNDS / 50);
    kymo_flows_end(&f);
    kymo_flows_free(&f);
}

/* A message with a number is never matched with one without, however similar they are. */
static void numbered_or_not(void **state)
{
    struct kymo_message plain = message(1, 2, 7), numbered = plain;
    struct kymo_flows f;
    int64_t oldest;

    (void)state;
    open_flows(&f);
    numbered.number = 5;
    (void)kymo_flows_send(&f, &plain);
    assert_int_equal(kymo_flows_receive(&f, &numbered), 0);
    uint64_t second = kymo_flows_send(&f, &numbered);
    kymo_flows_lost(&f);
    assert_int_equal(n_told, 1); /* the one without a number */
    assert_int_equal(kymo_flows_waiting(&f, PID(2), &oldest), 0);
    assert_int_equal(kymo_flows_receive(&f, &plain), 0);
    assert_int_equal(kymo_flows_receive(&f, &numbered), second);
    assert_int_equal(kymo_flows_receive(&f, &numbered), 0);

    /* The same number twice, which only a damaged recording contains. */
    uint64_t first = kymo_flows_send(&f, &numbered);
    second = kymo_flows_send(&f, &numbered);
    assert_int_equal(told[n_told - 1], first);
    assert_int_equal(kymo_flows_waiting(&f, PID(2), &oldest), 1);
    assert_int_equal(kymo_flows_receive(&f, &numbered), second);
    kymo_flows_free(&f);
}

/* A server replies to two clients, by their aliases; the second one is the first to receive. */
static void replies_overtake(void **state)
{
    struct kymo_message reply[2] = {message(1, 2, 7), message(1, 3, 7)};
    struct kymo_flows f;
    uint64_t sent[2];

    (void)state;
    open_flows(&f);
    for (unsigned i = 0; i < 2; i++) {
        struct kymo_message m = reply[i];
        m.to = KYMO_IDENT(KYMO_I_REF, 70 + i);
        m.number = reply[i].number = 5 + i;
        sent[i] = kymo_flows_send(&f, &m);
    }
    assert_int_equal(kymo_flows_receive(&f, &reply[1]), sent[1]);
    assert_int_equal(kymo_flows_receive(&f, &reply[0]), sent[0]);
    assert_int_equal(n_told, 0);
    kymo_flows_free(&f);
}

/* A process sends to a name that is not known yet, and to the process itself, in turns. */
static void to_name_and_process(void **state)
{
    uint64_t name = KYMO_IDENT(KYMO_I_ATOM, 9);
    struct kymo_message m = message(1, 2, 7);
    struct kymo_flows f;
    uint64_t sent[6];

    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        open_flows(&f);
        for (unsigned i = 0; i < 6; i++) {
            m.to = i % 3 == 1 ? PID(2) : name;
            m.from = PID(1);
            sent[i] = kymo_flows_send(&f, &m);
        }
        m.to = PID(2);
        m.name = name;
        m.from = known ? PID(1) : KYMO_IDENT_NONE;
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(kymo_flows_receive(&f, &m), sent[i]);
        assert_int_equal(n_told, 0);
        kymo_flows_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deep_mailbox),      cmocka_unit_test(the_oldest_goes),
        cmocka_unit_test(like_a_list),         cmocka_unit_test(numbers_survive_losses),
        cmocka_unit_test(numbered_or_not),     cmocka_unit_test(replies_overtake),
        cmocka_unit_test(to_name_and_process),
    };
    return cmocka_run_group_tests_name("flows", tests, NULL, NULL);
}
