/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "global.h"
#include "hash.h"
#include "erl_process.h"
#include "erl_binary.h"
#include "kept_patterns.h"

#define COUNTERS (ERTS_BPF_COUNT | ERTS_BPF_TIME_TRACE | ERTS_BPF_MEM_TRACE)
#define KINDS    (ERTS_BPF_LOCAL_TRACE | ERTS_BPF_GLOBAL_TRACE | \
                  ERTS_BPF_META_TRACE | COUNTERS)

/*
 * The settings for the functions that a pattern names.
 */
typedef struct {
    Uint said;                  /* Kinds with a setting */
    Uint flags;                 /* Those that are wanted, ERTS_BPF_* */
    Binary *local_ms;           /* Or that of global call trace */
    Binary *meta_ms;
    ErtsTracer meta_tracer;
} Said;

/*
 * The patterns are a tree: {'_','_','_'} is the root, with the modules below,
 * then the functions of a module and the arities of a function. A pattern exists
 * as long as it, or one below it, has settings. A hash table finds all patterns
 * except the root. They are removed from it when they are freed.
 */
typedef struct Pattern_ {
    HashBucket bucket;          /* Must be first */
    ErtsCodeMFA mfa;
    int specified;              /* 0 to 3 */
    Said said;

    struct Pattern_ *wider;     /* NULL for the root */
    struct Pattern_ *narrower;  /* The first one of those directly below */
    struct Pattern_ *next;      /* Siblings */
    struct Pattern_ *prev;
} Pattern;

struct KeptPatterns_ {
    Pattern root;
    Hash patterns;
    ErtsAuxYieldJob freeing;    /* When there are no references left */
    void (*done)(void *);       /* Called with done_arg when it has been freed */
    void *done_arg;
};

static erts_atomic_t num_patterns; /* In all sets, roots excluded, for tests */

/* Patterns that are freed before other work can run on the scheduler. */
#define FREE_STEP 1000

static void
init_said(Said *said)
{
    said->said = 0;
    said->flags = 0;
    said->local_ms = NULL;
    said->meta_ms = NULL;
    said->meta_tracer = erts_tracer_nil;
}

static void
init_pattern(Pattern *p)
{
    init_said(&p->said);
    p->wider = NULL;
    p->narrower = NULL;
    p->next = NULL;
    p->prev = NULL;
}

/*
 * Hash table of patterns
 */

static HashValue
pattern_hash(void *vp)
{
    const Pattern *p = vp;
    HashValue hval = atom_val(p->mfa.module);

    if (p->specified > 1) {
        hval = 31 * hval + atom_val(p->mfa.function);
    }
    if (p->specified > 2) {
        hval = 31 * hval + p->mfa.arity + 1;
    }
    return hval;
}

static int
pattern_cmp(void *va, void *vb)
{
    const Pattern *a = va, *b = vb;

    return a->specified != b->specified ||
        a->mfa.module != b->mfa.module ||
        (a->specified > 1 && a->mfa.function != b->mfa.function) ||
        (a->specified > 2 && a->mfa.arity != b->mfa.arity);
}

static void *
pattern_alloc(void *tmpl)
{
    Pattern *p = erts_alloc(ERTS_ALC_T_BPD, sizeof(Pattern));

    p->mfa = ((Pattern *) tmpl)->mfa;
    p->specified = ((Pattern *) tmpl)->specified;
    init_pattern(p);
    erts_atomic_inc_nob(&num_patterns);
    return p;
}

static void
pattern_free(void *p)
{
    ASSERT(((Pattern *) p)->said.said == 0);
    ASSERT(((Pattern *) p)->narrower == NULL);
    erts_free(ERTS_ALC_T_BPD, p);
    erts_atomic_dec_nob(&num_patterns);
}

static void *
table_alloc(int type, size_t size)
{
    return erts_alloc((ErtsAlcType_t) type, size);
}

static void
table_free(int type, void *p)
{
    erts_free((ErtsAlcType_t) type, p);
}

/* The pattern of the first parts of `mfa`, or NULL. */
static Pattern *
find_pattern(const KeptPatterns *kept, const ErtsCodeMFA *mfa, int specified)
{
    Pattern tmpl;

    tmpl.mfa = *mfa;
    tmpl.specified = specified;
    return hash_get((Hash *) &kept->patterns, &tmpl);
}

/* The same; it is made, with all patterns above it, if it does not exist. */
static Pattern *
get_pattern(KeptPatterns *kept, const ErtsCodeMFA *mfa, int specified)
{
    Pattern tmpl, *p = &kept->root;

    tmpl.mfa = *mfa;
    for (tmpl.specified = 1; tmpl.specified <= specified; tmpl.specified++) {
        Pattern *wider = p;

        p = hash_put(&kept->patterns, &tmpl);
        if (!p->wider) {
            p->wider = wider;
            p->next = wider->narrower;
            if (p->next) {
                p->next->prev = p;
            }
            wider->narrower = p;
        }
    }
    return p;
}

/* Free a pattern if it isn't needed. */
static void
drop_pattern(KeptPatterns *kept, Pattern *p)
{
    if (!p->wider || p->said.said != 0 || p->narrower) {
        return;
    }
    if (p->prev) {
        p->prev->next = p->next;
    } else {
        p->wider->narrower = p->next;
    }
    if (p->next) {
        p->next->prev = p->prev;
    }
    hash_erase(&kept->patterns, p);
}

/* The same, and those above it. */
static void
drop_patterns(KeptPatterns *kept, Pattern *p)
{
    while (p) {
        Pattern *wider = p->wider;

        drop_pattern(kept, p);
        p = wider;
    }
}

/*
 * Settings
 */

/* The flags that belong to kinds of breakpoints. */
static Uint
flags_of(Uint kinds)
{
    Uint flags = kinds;

    if (kinds & ERTS_BPF_COUNT) {
        flags |= ERTS_BPF_COUNT_ACTIVE;
    }
    if (kinds & ERTS_BPF_TIME_TRACE) {
        flags |= ERTS_BPF_TIME_TRACE_ACTIVE;
    }
    if (kinds & ERTS_BPF_MEM_TRACE) {
        flags |= ERTS_BPF_MEM_TRACE_ACTIVE;
    }
    return flags;
}

/* Release references that nothing that is wanted needs. */
static void
release_unwanted(Said *said)
{
    if (!(said->flags & (ERTS_BPF_LOCAL_TRACE | ERTS_BPF_GLOBAL_TRACE))) {
        MatchSetUnref(said->local_ms);
        said->local_ms = NULL;
    }
    if (!(said->flags & ERTS_BPF_META_TRACE)) {
        MatchSetUnref(said->meta_ms);
        said->meta_ms = NULL;
        ERTS_TRACER_CLEAR(&said->meta_tracer);
    }
}

static void
forget(Said *said, Uint kinds)
{
    said->said &= ~kinds;
    said->flags &= ~flags_of(kinds);
    release_unwanted(said);
}

static void
say_unwanted(Said *said, Uint kinds)
{
    said->said |= kinds;
    said->flags &= ~flags_of(kinds);
    release_unwanted(said);
}

static void
say_wanted(Said *said, Uint kinds, Binary *match_spec, ErtsTracer meta_tracer)
{
    /* First, as it may be the same one. */
    MatchSetRef(match_spec);

    said->said |= kinds;
    said->flags |= flags_of(kinds);
    if (kinds & (ERTS_BPF_LOCAL_TRACE | ERTS_BPF_GLOBAL_TRACE)) {
        MatchSetRef(match_spec);
        MatchSetUnref(said->local_ms);
        said->local_ms = match_spec;
    }
    if (kinds & ERTS_BPF_META_TRACE) {
        MatchSetRef(match_spec);
        MatchSetUnref(said->meta_ms);
        said->meta_ms = match_spec;
        erts_tracer_update(&said->meta_tracer, meta_tracer);
    }

    MatchSetUnref(match_spec);
}

/* Pause or restart the counters that are wanted. */
static void
say_active(Said *said, Uint counters, int active)
{
    const Uint kinds = said->flags & counters;

    if (active) {
        said->flags |= flags_of(kinds);
    } else {
        said->flags &= ~(flags_of(kinds) & ~kinds);
    }
}

static void
apply(const Said *said, BpWanted *wanted)
{
    /* A function has either global or local breakpoints. */
    if (said->flags & ERTS_BPF_GLOBAL_TRACE) {
        wanted->flags &= ERTS_BPF_GLOBAL_TRACE;
    } else if (said->flags) {
        wanted->flags &= ~ERTS_BPF_GLOBAL_TRACE;
    }
    wanted->flags = (wanted->flags & ~flags_of(said->said)) | said->flags;
    if (said->flags & (ERTS_BPF_LOCAL_TRACE | ERTS_BPF_GLOBAL_TRACE)) {
        wanted->local_ms = said->local_ms;
    }
    if (said->flags & ERTS_BPF_META_TRACE) {
        wanted->meta_ms = said->meta_ms;
        wanted->meta_tracer = said->meta_tracer;
    }
}

/* Apply the settings of the patterns above a pattern, then its own. Returns the
 * kinds with settings. */
static Uint
apply_from_root(const Pattern *p, BpWanted *wanted)
{
    const Pattern *path[4];
    Uint kinds = 0;
    int n = 0;

    for (; p; p = p->wider) {
        path[n++] = p;
    }
    while (n-- > 0) {
        apply(&path[n]->said, wanted);
        kinds |= path[n]->said.said;
    }
    return kinds;
}

/* The effect of an operation, by kind. */
typedef struct {
    Uint wanted;
    Uint unwanted;
    Uint paused;
    Uint restarted;
} Operation;

/* Change the settings below a pattern, and free patterns that are not needed any
 * more. Returns the number of patterns visited. */
static Uint
change_narrower(KeptPatterns *kept, Pattern *wider, const Operation *op)
{
    Pattern *p, *next;
    Uint n = 0;

    for (p = wider->narrower; p; p = next) {
        next = p->next;
        n += 1 + change_narrower(kept, p, op);
        forget(&p->said, op->wanted | op->unwanted);
        say_active(&p->said, op->paused, 0);
        say_active(&p->said, op->restarted, 1);
        drop_pattern(kept, p);
    }
    return n;
}

static Operation
make_operation(enum erts_break_op on, struct trace_pattern_flags flags)
{
    Operation op = {0, 0, 0, 0};
    Uint kinds = ((flags.local ? ERTS_BPF_LOCAL_TRACE : 0) |
                  (flags.meta ? ERTS_BPF_META_TRACE : 0) |
                  (flags.call_count ? ERTS_BPF_COUNT : 0) |
                  (flags.call_time ? ERTS_BPF_TIME_TRACE : 0) |
                  (flags.call_memory ? ERTS_BPF_MEM_TRACE : 0));

    if (!flags.breakpoint) {
        /* Global call trace replaces all other kinds. */
        op.wanted = on ? ERTS_BPF_GLOBAL_TRACE : 0;
        op.unwanted = on ? KINDS & ~op.wanted : ERTS_BPF_GLOBAL_TRACE;
    } else if (!on) {
        op.unwanted = kinds;
    } else {
        op.unwanted = ERTS_BPF_GLOBAL_TRACE;
        op.wanted = kinds;
        if (on == ERTS_BREAK_PAUSE) {
            op.paused = kinds & COUNTERS;
        } else if (on == ERTS_BREAK_RESTART) {
            op.restarted = kinds & COUNTERS;
        }
        op.wanted &= ~(op.paused | op.restarted);
    }
    return op;
}

Uint
erts_kept_patterns_set(KeptPatterns *kept, const ErtsCodeMFA *mfa,
                       int specified, enum erts_break_op on,
                       struct trace_pattern_flags flags,
                       Binary *match_spec, ErtsTracer meta_tracer)
{
    const Operation op = make_operation(on, flags);
    Pattern *p = get_pattern(kept, mfa, specified);
    Said *said = &p->said;
    BpWanted before;
    Uint said_before, counters, looked_at;

    ERTS_LC_ASSERT(erts_has_code_mod_permission());

    looked_at = change_narrower(kept, p, &op);

    sys_memzero(&before, sizeof(before));
    said_before = apply_from_root(p->wider, &before);

    /* Pause or restart what a wider pattern wants. */
    counters = (op.paused | op.restarted) & before.flags & ~said->said;
    say_wanted(said, counters, NULL, erts_tracer_nil);
    say_active(said, op.paused, 0);
    say_active(said, op.restarted, 1);

    say_wanted(said, op.wanted, match_spec, meta_tracer);
    /* No setting is needed if no wider pattern has another one. */
    say_unwanted(said, op.unwanted & said_before);
    forget(said, op.unwanted & ~said_before);

    drop_patterns(kept, p);
    return looked_at;
}

int
erts_kept_patterns_name_module(const KeptPatterns *kept, Eterm module)
{
    ErtsCodeMFA mfa;

    mfa.module = module;
    return kept->root.said.flags || find_pattern(kept, &mfa, 1);
}

void
erts_kept_patterns_apply(const KeptPatterns *kept, const ErtsCodeMFA *mfa,
                         BpWanted *wanted)
{
    const Pattern *p, *narrowest = &kept->root;
    int specified = 1;

    while (specified <= 3 && (p = find_pattern(kept, mfa, specified))) {
        narrowest = p;
        specified++;
    }
    (void) apply_from_root(narrowest, wanted);
}

void
erts_kept_patterns_init(void)
{
    erts_atomic_init_nob(&num_patterns, 0);
}

UWord
erts_kept_patterns_count(void)
{
    return (UWord) erts_atomic_read_nob(&num_patterns);
}

KeptPatterns *
erts_kept_patterns_new(void)
{
    KeptPatterns *kept = erts_alloc(ERTS_ALC_T_BPD, sizeof(KeptPatterns));
    HashFunctions f;

    f.hash = pattern_hash;
    f.cmp = pattern_cmp;
    f.alloc = pattern_alloc;
    f.free = pattern_free;
    f.meta_alloc = table_alloc;
    f.meta_free = table_free;
    f.meta_print = (HMPRINT_FUN) erts_print;

    kept->root.specified = 0;
    init_pattern(&kept->root);
    hash_init(ERTS_ALC_T_BPD, &kept->patterns, "kept_patterns", 10, f);
    return kept;
}

/* A step of freeing a set. Returns whether there is more to do. */
static int
free_step(ErtsAuxYieldJob *job)
{
    KeptPatterns *kept = ErtsContainerStruct(job, KeptPatterns, freeing);
    void (*done)(void *);
    void *arg;
    int i;

    for (i = 0; i < FREE_STEP && kept->root.narrower; i++) {
        Pattern *p = kept->root.narrower;

        while (p->narrower) {
            p = p->narrower;
        }
        forget(&p->said, KINDS);
        drop_pattern(kept, p);
    }
    if (kept->root.narrower) {
        return 1;
    }
    hash_delete(&kept->patterns);
    forget(&kept->root.said, KINDS);
    done = kept->done;
    arg = kept->done_arg;
    erts_free(ERTS_ALC_T_BPD, kept);
    if (done) {
        done(arg);
    }
    return 0;
}

void
erts_kept_patterns_delete(KeptPatterns *kept, void (*done)(void *), void *arg)
{
    kept->done = done;
    kept->done_arg = arg;
    if (free_step(&kept->freeing)) {
        kept->freeing.step = free_step;
        erts_schedule_aux_yield_job(&kept->freeing);
    }
}
