/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a Perfetto trace from standard input and compares the messages at both ends of each arrow. Uses
 * none of kymo's code, and keeps nothing that grows with the trace. kymo_arrows_SUITE describes the
 * messages: {Ref, {Sender, Number, SenderBefore, NumberBefore}}.
 *
 * Prints, as an Erlang map:
 *   sends, receives    events with such a message
 *   arrows, wrong      arrows from a send to a receive, and those of two different messages
 *   missing            receives without an arrow although their send was before them in the trace
 *   takes, wrong_takes arrows from a send to a `taken`, and those of two different messages. Only those
 *                      for which the process sent something directly before and after the `taken`.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 1024, TRACKS = 4096, SENDERS = 64, FLOWS = 1 << 20, KEPT = 1 << 18, PACKET_MAX = 1 << 20 };
enum name { OTHER, SEND, RECEIVE, TAKEN, MESSAGE };

struct message {
    uint64_t sender, number, before_sender, before_number;
};

struct span {
    const uint8_t *p, *end;
};

struct event {
    enum name name;
    uint64_t track, flow; /* flow 0: no arrow */
    bool has_message;
    struct message m;
};

static uint8_t names[NAMES], keys[NAMES]; /* enum name, by interned id */
static struct {
    uint64_t id;
    struct message m;
} flows[FLOWS];                      /* by id: the sends of the newest arrows */
static uint64_t sent[SENDERS][KEPT]; /* by sender and number: the numbers of the newest sends */
static struct {
    uint64_t uuid, last; /* number of its last send */
    uint64_t takes;      /* since then */
    uint64_t taken_flow; /* of the last of them */
} tracks[TRACKS];
static uint64_t n_sends, n_receives, n_arrows, n_wrong, n_missing, n_takes, n_wrong_takes;

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static uint64_t varint(struct span *s)
{
    uint64_t v = 0;
    for (unsigned shift = 0; s->p < s->end && shift < 64; shift += 7) {
        uint8_t b = *s->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return v;
    }
    fail("a bad number");
    return 0;
}

/* The next field: its number, and its value or bytes. */
static unsigned field(struct span *s, uint64_t *v, struct span *bytes)
{
    uint64_t key = varint(s), n = (key & 7) == 1 ? 8 : 0;
    if ((key & 7) == 0)
        *v = varint(s);
    else if ((key & 7) == 2)
        n = varint(s);
    else if ((key & 7) != 1)
        fail("a bad type of a field");
    if (n > (uint64_t)(s->end - s->p))
        fail("a field that is too long");
    *bytes = (struct span){s->p, s->p + n};
    s->p += n;
    if ((key & 7) == 1)
        memcpy(v, bytes->p, sizeof *v);
    return (unsigned)(key >> 3);
}

static void intern(struct span s, uint8_t *table)
{
    static const char *const texts[] = {
        [SEND] = "send", [RECEIVE] = "receive", [TAKEN] = "taken", [MESSAGE] = "message"};
    uint64_t v, iid = 0;
    struct span b, text = {NULL, NULL};
    while (s.p < s.end) {
        unsigned n = field(&s, &v, &b);
        if (n == 1)
            iid = v;
        else if (n == 2)
            text = b;
    }
    for (unsigned i = SEND; i <= MESSAGE; i++) {
        size_t len = strlen(texts[i]);
        if ((size_t)(text.end - text.p) != len || memcmp(text.p, texts[i], len) != 0)
            continue;
        if (iid >= NAMES)
            fail("too many names");
        table[iid] = (uint8_t)i;
    }
}

static bool number(struct span *s, uint64_t *v, char end)
{
    const uint8_t *begin = s->p;
    for (*v = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        *v = *v * 10 + (uint64_t)(*s->p - '0');
    return s->p > begin && s->p < s->end && *s->p++ == end;
}

static bool message(struct span s, struct message *m)
{
    const uint8_t *open = s.end;
    while (open > s.p && *--open != '{') {
    }
    s.p = open + 1;
    return open < s.end && number(&s, &m->sender, ',') && number(&s, &m->number, ',') &&
           number(&s, &m->before_sender, ',') && number(&s, &m->before_number, '}');
}

static void annotation(struct span s, struct event *e)
{
    uint64_t v, key = 0;
    struct span b, text = {NULL, NULL};
    while (s.p < s.end) {
        unsigned n = field(&s, &v, &b);
        if (n == 1)
            key = v;
        else if (n == 6)
            text = b;
    }
    if (key < NAMES && keys[key] == MESSAGE && text.p != NULL)
        e->has_message = message(text, &e->m);
}

static bool same(uint64_t flow, uint64_t sender, uint64_t no)
{
    return flows[flow % FLOWS].id == flow && flows[flow % FLOWS].m.sender == sender &&
           flows[flow % FLOWS].m.number == no;
}

static unsigned track_of(uint64_t uuid)
{
    for (uint64_t i = uuid, n = 0; n < TRACKS; i++, n++) {
        if (tracks[i % TRACKS].uuid == 0)
            tracks[i % TRACKS].uuid = uuid;
        if (tracks[i % TRACKS].uuid == uuid)
            return (unsigned)(i % TRACKS);
    }
    fail("too many tracks");
    return 0;
}

/* A process sends each message directly after it has taken one, and names that in it. */
static void send(const struct event *e)
{
    unsigned t = track_of(e->track);
    n_sends++;
    if (e->m.sender >= SENDERS)
        fail("an unknown sender");
    if (tracks[t].last + 1 == e->m.number && tracks[t].takes == 1 && tracks[t].taken_flow != 0) {
        n_takes++;
        n_wrong_takes += !same(tracks[t].taken_flow, e->m.before_sender, e->m.before_number);
    }
    tracks[t].last = e->m.number;
    tracks[t].takes = 0;
    sent[e->m.sender][e->m.number % KEPT] = e->m.number;
    if (e->flow != 0) {
        flows[e->flow % FLOWS].id = e->flow;
        flows[e->flow % FLOWS].m = e->m;
    }
}

static void receive(const struct event *e)
{
    n_receives++;
    if (e->flow != 0) {
        n_arrows++;
        n_wrong += !same(e->flow, e->m.sender, e->m.number);
    } else if (e->m.sender < SENDERS && sent[e->m.sender][e->m.number % KEPT] == e->m.number) {
        n_missing++;
    }
}

static void track_event(struct span s)
{
    struct event e = {.name = OTHER};
    uint64_t v, type = 0;
    struct span b;
    while (s.p < s.end) {
        switch (field(&s, &v, &b)) {
        case 4: annotation(b, &e); break;
        case 9: type = v; break;
        case 10: e.name = v < NAMES ? names[v] : OTHER; break;
        case 11: e.track = v; break;
        case 47:
        case 48: e.flow = v; break;
        default: break;
        }
    }
    if (type != 3) /* an instant */
        return;
    if (e.name == SEND && e.has_message) {
        send(&e);
    } else if (e.name == RECEIVE && e.has_message) {
        receive(&e);
    } else if (e.name == TAKEN) {
        unsigned t = track_of(e.track);
        tracks[t].takes++;
        tracks[t].taken_flow = e.flow;
    }
}

static void packet(struct span s)
{
    uint64_t v;
    struct span b, event = {NULL, NULL};
    while (s.p < s.end) {
        unsigned n = field(&s, &v, &b);
        if (n == 11)
            event = b;
        while (n == 12 && b.p < b.end) {
            struct span entry;
            unsigned kind = field(&b, &v, &entry);
            if (kind == 2 || kind == 3)
                intern(entry, kind == 2 ? names : keys);
        }
    }
    if (event.p != NULL)
        track_event(event);
}

static bool read_packet(uint8_t *bytes)
{
    int c = getchar_unlocked();
    if (c == EOF)
        return false;
    uint64_t n = 0;
    if (c != 0x0a)
        fail("not a packet");
    for (unsigned shift = 0; shift < 64; shift += 7) {
        c = getchar_unlocked();
        n |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            break;
    }
    if (c == EOF || n > PACKET_MAX || fread(bytes, 1, n, stdin) != n)
        fail("a packet that is cut or too long");
    packet((struct span){bytes, bytes + n});
    return true;
}

int main(void)
{
    uint8_t *bytes = malloc(PACKET_MAX);
    if (bytes == NULL)
        fail("no memory");
    while (read_packet(bytes)) {
    }
    free(bytes);
    printf("#{sends => %" PRIu64 ", receives => %" PRIu64 ", arrows => %" PRIu64 ", wrong => %" PRIu64
           ", missing => %" PRIu64 ", takes => %" PRIu64 ", wrong_takes => %" PRIu64 "}.\n",
           n_sends, n_receives, n_arrows, n_wrong, n_missing, n_takes, n_wrong_takes);
    return 0;
}
