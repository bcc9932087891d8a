/* SPDX-License-Identifier: Apache-2.0
 *
 * Which receive belongs to which send, when many messages wait: compared with a list
 * that is searched from its beginning.
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

/* More than there was ever room for, with ids between that belong to nobody's message. */
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

/* A message that nobody takes, while others come and go: it is forgotten when there is
 * no more room, and only then. */
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

/* The oldest of the sender that fits; those of the sender before it go, too. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deep_mailbox),
        cmocka_unit_test(the_oldest_goes),
        cmocka_unit_test(like_a_list),
    };
    return cmocka_run_group_tests_name("flows", tests, NULL, NULL);
}
