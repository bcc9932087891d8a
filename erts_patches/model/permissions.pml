/* SPDX-License-Identifier: Apache-2.0
 *
 * The permissions to stage and to modify code, as 0065 of otp-27.3.4 grants them
 * (code_ix.c): processes that need one of them or both, and a purger that holds the
 * first and then needs the second. Another process suspends one of them at any time,
 * for a while or for ever, and one is killed at any time. Functions that hold the
 * lock are one step each. Between being suspended (or killed) and telling the queue
 * about it, others may do anything.
 *
 * Whether a process comes late is a matter of time. Here it is chosen freely each
 * time how many are called at once. The second set of runs has no suspensions and
 * kills, but more requests.
 *
 * Shown:
 *  - a permission has one holder or none;
 *  - nobody waits for ever, except for itself: each process ends, unless it is
 *    suspended for ever;
 *  - a permission is not left unused: if somebody could have what it waits for, one of
 *    those who could is on its way;
 *  - while a process waits and is not away, those in front of it and twice as many
 *    others as there were waiters (here: as many, LIMIT) get what it needs before it
 *    does; for one that needs both, this is counted for the permission to stage.
 *
 * check modify, both, purge: KIND0=2 KIND1=3 KIND2=4 DISTURB OPS=1
 * check modify, both, modify: KIND0=2 KIND1=3 KIND2=2 DISTURB
 * check turns of modify, modify, both: KIND0=2 KIND1=2 KIND2=3 OPS=3
 * check turns of modify, both, purge: KIND0=2 KIND1=3 KIND2=4
 * check four: KIND0=2 KIND1=3 KIND2=4 KIND3=2 OPS=1
 * mutant released without a call: KIND0=2 KIND1=3 KIND2=2 DISTURB RELEASE_SILENTLY
 * mutant seized without a call: KIND0=2 KIND1=3 KIND2=4 KIND3=2 OPS=1 SEIZE_SILENTLY
 * mutant failed without a call: KIND0=2 KIND1=3 KIND2=4 KIND3=2 OPS=1 FAIL_SILENTLY
 * mutant the queue is not told of suspensions: KIND0=2 KIND1=3 KIND2=2 DISTURB NOT_TOLD
 * mutant suspended processes are waited for: KIND0=2 KIND1=3 KIND2=2 DISTURB CALL_SUSPENDED
 * mutant away without a call: KIND0=2 KIND1=3 KIND2=2 DISTURB AWAY_SILENTLY
 * mutant killed processes stay: KIND0=2 KIND1=3 KIND2=2 DISTURB NO_EXIT
 * mutant killed processes leave without a call: KIND0=2 KIND1=3 KIND2=2 DISTURB EXIT_SILENTLY
 * mutant called processes own the permission: KIND0=2 KIND1=3 KIND2=2 DISTURB OWNED
 * mutant those who need both claim both while code is staged: KIND0=2 KIND1=3 KIND2=4 DISTURB CLAIM_BOTH
 * mutant late processes go to the end: KIND0=2 KIND1=2 KIND2=3 OPS=3 TO_THE_END
 * mutant overtaking without limit: KIND0=2 KIND1=2 KIND2=3 OPS=3 NO_LIMIT
 */
#define STAGE 1
#define MOD 2
#define BOTH 3
#define PURGE 4

#ifdef KIND3
#define N 4
#else
#define N 3
#define KIND3 0
#endif
#ifndef OPS
#define OPS 2
#endif
#define LIMIT 1

#define SUSPENDED 0
#define CALLED 1
#define AWAY 2

/* The queue: who, what it needs, its state, how many may overtake it. */
byte who[N], needs[N], state[N], left[N];
byte length;
byte at_once = 1;
byte held;

bool waits[N];                  /* suspended by itself until it is called */
bool stopped[N];                /* suspended by another process */
bool killed[N], for_ever[N];

/* How often others got what it waits for, and how often they may. */
byte passed[N], bound[N];

/* Scratch, zero between steps. */
byte i, j, set, other, on_way, at;

#define MAY_OVERTAKE(k) (at_once > 1 && left[k] > 0)

#ifdef CLAIM_BOTH
#define CLAIMED(k) (state[k] == AWAY -> 0 : needs[k])
#else
#define CLAIMED(k) \
    (state[k] == AWAY -> 0 : \
     ((held & STAGE) -> ((needs[k] & STAGE) -> STAGE : MOD) : needs[k]))
#endif

inline call(k)
{
    state[k] = AWAY;
    if
    :: killed[who[k]]
    :: else ->
        waits[who[k]] = false;
        if
#ifndef CALL_SUSPENDED
        :: stopped[who[k]]
#endif
        :: else -> state[k] = CALLED
        fi
    fi;
#ifdef OWNED
    if
    :: state[k] == CALLED -> held = held | needs[k]
    :: else
    fi
#endif
}

inline call_next()
{
    i = 0; set = held; on_way = 0;
    do
    :: i < length && set != BOTH ->
        if
        :: state[i] == SUSPENDED && !(needs[i] & set) && (!MAY_OVERTAKE(i) || on_way < at_once) -> call(i)
        :: else
        fi;
        if
        :: state[i] == CALLED && !(needs[i] & set) -> on_way++
        :: else
        fi;
        if
        :: MAY_OVERTAKE(i)
        :: else -> set = set | CLAIMED(i)
        fi;
        i++
    :: else -> break
    od;
    i = 0; set = 0; on_way = 0
}

/* If somebody could have what it needs, one of those is on its way. */
inline check_use()
{
#ifndef OWNED
    i = 0; set = held; other = 0; on_way = 0;
    do
    :: i < length ->
        if
        :: !(needs[i] & set) && state[i] == SUSPENDED -> other = 1
        :: !(needs[i] & set) && state[i] == CALLED -> on_way = 1
        :: else
        fi;
        if
        :: MAY_OVERTAKE(i)
        :: else -> set = set | CLAIMED(i)
        fi;
        i++
    :: else -> break
    od;
    assert(!other || on_way);
    i = 0; set = 0; other = 0; on_way = 0
#else
    skip
#endif
}

inline find(id)
{
    at = 0;
    do
    :: at < length && who[at] != id -> at++
    :: else -> break
    od
}

/* Needs at. */
inline leave()
{
    i = at;
    length--;
    do
    :: i < length ->
        who[i] = who[i + 1]; needs[i] = needs[i + 1]; state[i] = state[i + 1]; left[i] = left[i + 1];
        i++
    :: else -> break
    od;
    who[length] = 0; needs[length] = 0; state[length] = 0; left[length] = 0;
    i = 0
}

inline append(id, what)
{
    who[length] = id; needs[length] = what; state[length] = SUSPENDED;
    length++;
    left[length - 1] = LIMIT * length;
    bound[id] = length - 1 + LIMIT * length;
    passed[id] = 0
}

/* Somebody at place at gets what. */
inline count(what)
{
    i = 0;
    do
    :: i < length ->
        if
        :: i != at && state[i] != AWAY && (what & (needs[i] == MOD -> MOD : STAGE)) ->
            passed[who[i]]++;
            assert(passed[who[i]] <= bound[who[i]])
        :: else
        fi;
        if
        :: i < at && (needs[i] & what) && state[i] != AWAY && left[i] > 0 ->
#ifndef NO_LIMIT
            left[i]--
#else
            skip
#endif
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* Sets got[id]. */
bool got[N];

inline request(id, what)
{
    find(id);
#ifdef OWNED
    if
    :: at < length && state[at] == CALLED -> held = held & ~needs[at]
    :: else
    fi;
#endif
    set = held; i = 0;
    do
    :: i < at ->
        if
        :: MAY_OVERTAKE(i)
        :: else -> set = set | CLAIMED(i)
        fi;
        i++
    :: else -> break
    od;
    got[id] = !(set & what);
    set = 0; i = 0;
    if
    :: got[id] ->
        count(what);
        if
        :: at < length -> leave()
        :: else
        fi;
        assert(!(held & what));
        held = held | what;
#ifndef SEIZE_SILENTLY
        call_next()
#endif
    :: else ->
        if
        :: at < length ->
#ifdef TO_THE_END
            j = passed[id]; set = bound[id];
            leave(); append(id, what);
            passed[id] = j; bound[id] = set;
            j = 0; set = 0
#else
            state[at] = SUSPENDED
#endif
        :: else -> append(id, what)
        fi;
        waits[id] = true;
#ifndef FAIL_SILENTLY
        call_next()
#endif
    fi;
    at = 0;
    check_use()
}

inline give_back(what)
{
    held = held & ~what;
#ifndef RELEASE_SILENTLY
    call_next();
    check_use()
#endif
}

/* Waits until it has what, or ends. The time that it took to come is not known. */
inline get(id, what)
{
    do
    :: atomic { killed[id] -> goto dies }
    :: atomic { for_ever[id] -> goto done }
    :: atomic {
            !killed[id] && !stopped[id] && !waits[id] ->
            if
            :: at_once = 1
            :: at_once = 2
            fi;
            atomic { request(id, what) }
            if
            :: got[id] -> got[id] = false; break
            :: else
            fi
        }
    od
}

proctype process(byte id; byte kind)
{
    byte ops = OPS;

    do
    :: ops > 0 && kind == PURGE ->
        get(id, STAGE);
        get(id, MOD);
        atomic { give_back(MOD) };
        atomic { give_back(STAGE) };
        ops--
    :: ops > 0 && kind != PURGE ->
        get(id, kind);
        atomic { give_back(kind) };
        ops--
    :: ops == 0 -> goto done
    od;
dies:
#ifndef NO_EXIT
    atomic {
        find(id);
        if
        :: at < length ->
            leave();
#ifndef EXIT_SILENTLY
            call_next()
#endif
        :: else
        fi;
        at = 0;
        check_use()
    };
#endif
done:
    skip
}

#ifdef DISTURB
#define CHOOSE(v) \
    if \
    :: KIND0 != PURGE -> v = 0 \
    :: KIND1 != PURGE -> v = 1 \
    :: KIND2 != PURGE -> v = 2 \
    fi

/* A purger is a process of the system, and nobody may suspend or kill it. */
proctype suspender()
{
    byte v;

    CHOOSE(v);
    stopped[v] = true;
#ifndef NOT_TOLD
    atomic {
        find(v);
        if
        :: at < length && state[at] == CALLED ->
            state[at] = AWAY;
#ifndef AWAY_SILENTLY
            call_next()
#endif
        :: else
        fi;
        at = 0;
        check_use()
    };
#endif
    if
    :: stopped[v] = false
    :: for_ever[v] = true
    fi
}

proctype killer()
{
    byte v;

    CHOOSE(v);
    killed[v] = true
}
#endif

init {
    atomic {
        run process(0, KIND0);
        run process(1, KIND1);
        run process(2, KIND2);
#if N == 4
        run process(3, KIND3);
#endif
#ifdef DISTURB
        run suspender();
        run killer();
#endif
    }
}
