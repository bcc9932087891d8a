/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "global.h"
#include "hash.h"
#include "erl_binary.h"
#include "kept_patterns.h"

#define COUNTERS (ERTS_BPF_COUNT | ERTS_BPF_TIME_TRACE | ERTS_BPF_MEM_TRACE)
#define KINDS    (ERTS_BPF_LOCAL_TRACE | ERTS_BPF_GLOBAL_TRACE | \
                  ERTS_BPF_META_TRACE | COUNTERS)

/*
 * What is said about the functions that a pattern names.
 */
typedef struct {
    Uint said;                  /* Kinds */
    Uint flags;                 /* Those that are wanted, ERTS_BPF_* */
    Binary *local_ms;           /* Or that of global call trace */
    Binary *meta_ms;
    ErtsTracer meta_tracer;
} Said;

typedef struct Pattern_ {
    struct Pattern_ *next;
    ErtsCodeMFA mfa;
    int specified;              /* 1 to 3 */
    Said said;
} Pattern;

/* Patterns that name a module. */
typedef struct {
    HashBucket bucket;          /* Must be first */
    Eterm module;
    Pattern *patterns;
} ModulePatterns;

struct KeptPatterns_ {
    Said all;                   /* {'_','_','_'} */
    Hash modules;
};

/*
 * Hash table of modules
 */

static HashValue
module_hash(void *mp)
{
    return atom_val(((ModulePatterns *) mp)->module);
}

static int
module_cmp(void *a, void *b)
{
    return ((ModulePatterns *) a)->module != ((ModulePatterns *) b)->module;
}

static void *
module_alloc(void *tmpl)
{
    ModulePatterns *mp = erts_alloc(ERTS_ALC_T_BPD, sizeof(ModulePatterns));

    mp->module = ((ModulePatterns *) tmpl)->module;
    mp->patterns = NULL;
    return mp;
}

static void
module_free(void *mp)
{
    ASSERT(((ModulePatterns *) mp)->patterns == NULL);
    erts_free(ERTS_ALC_T_BPD, mp);
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

static ModulePatterns *
get_module(const KeptPatterns *kept, Eterm module)
{
    ModulePatterns tmpl;

    tmpl.module = module;
    return (ModulePatterns *) hash_get((Hash *) &kept->modules, &tmpl);
}

/*
 * What is said
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

/* Release what isn't referred to by anything that is wanted. */
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
    /* First, as it may be the one that is there. */
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

/*
 * Patterns
 */

/* Whether a pattern of the module of `mfa` names the function, when both name
 * a function; and its arity, when both name one. */
static int
is_related(const Pattern *p, const ErtsCodeMFA *mfa, int specified)
{
    return (p->specified < 2 || specified < 2 ||
            p->mfa.function == mfa->function) &&
        (p->specified < 3 || specified < 3 || p->mfa.arity == mfa->arity);
}

/* Apply what is said by the patterns that name the functions of `mfa`, and
 * others, from the widest one to the narrowest one. Returns the kinds. */
static Uint
apply_wider(const KeptPatterns *kept, const ModulePatterns *mp,
            const ErtsCodeMFA *mfa, int specified, BpWanted *wanted)
{
    const Said *wider[4] = {NULL, NULL, NULL, NULL};
    const Pattern *p;
    Uint kinds = 0;
    int i;

    wider[0] = &kept->all;
    for (p = mp ? mp->patterns : NULL; p; p = p->next) {
        if (p->specified < specified && is_related(p, mfa, specified)) {
            wider[p->specified] = &p->said;
        }
    }
    for (i = 0; i < specified; i++) {
        if (wider[i]) {
            apply(wider[i], wanted);
            kinds |= wider[i]->said;
        }
    }
    return kinds;
}

/* What an operation says, by kind. */
typedef struct {
    Uint wanted;
    Uint unwanted;
    Uint paused;
    Uint restarted;
} Operation;

/* Change what is said about some of the functions of `mfa`. */
static void
change_narrower(ModulePatterns *mp, const ErtsCodeMFA *mfa, int specified,
                const Operation *op)
{
    Pattern **prev = &mp->patterns;

    while (*prev) {
        Pattern *p = *prev;

        if (p->specified > specified && is_related(p, mfa, specified)) {
            forget(&p->said, op->wanted | op->unwanted);
            say_active(&p->said, op->paused, 0);
            say_active(&p->said, op->restarted, 1);
        }
        if (p->said.said == 0) {
            *prev = p->next;
            erts_free(ERTS_ALC_T_BPD, p);
        } else {
            prev = &p->next;
        }
    }
}

typedef struct {
    const ErtsCodeMFA *mfa;
    const Operation *op;
} NarrowerArgs;

static void
change_narrower_in_module(void *mp, void *args)
{
    const NarrowerArgs *a = args;

    change_narrower(mp, a->mfa, 0, a->op);
}

static void
init_said(Said *said)
{
    said->said = 0;
    said->flags = 0;
    said->local_ms = NULL;
    said->meta_ms = NULL;
    said->meta_tracer = erts_tracer_nil;
}

/* What is said about exactly the functions of `mfa`. */
static Said *
get_said(ModulePatterns *mp, const ErtsCodeMFA *mfa, int specified)
{
    Pattern *p;

    for (p = mp->patterns; p; p = p->next) {
        if (p->specified == specified && is_related(p, mfa, specified)) {
            return &p->said;
        }
    }

    p = erts_alloc(ERTS_ALC_T_BPD, sizeof(Pattern));
    p->mfa = *mfa;
    p->specified = specified;
    init_said(&p->said);
    p->next = mp->patterns;
    mp->patterns = p;
    return &p->said;
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
        /* Global call trace takes the place of all others. */
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

void
erts_kept_patterns_set(KeptPatterns *kept, const ErtsCodeMFA *mfa,
                       int specified, enum erts_break_op on,
                       struct trace_pattern_flags flags,
                       Binary *match_spec, ErtsTracer meta_tracer)
{
    const Operation op = make_operation(on, flags);
    ModulePatterns *mp = NULL;
    BpWanted before;
    Uint said_before, counters;
    Said *said;

    ERTS_LC_ASSERT(erts_has_code_mod_permission());

    if (specified == 0) {
        NarrowerArgs args = {mfa, &op};

        hash_foreach(&kept->modules, change_narrower_in_module, &args);
        said = &kept->all;
    } else {
        ModulePatterns tmpl;

        tmpl.module = mfa->module;
        mp = hash_put(&kept->modules, &tmpl);
        change_narrower(mp, mfa, specified, &op);
        said = get_said(mp, mfa, specified);
    }

    sys_memzero(&before, sizeof(before));
    said_before = apply_wider(kept, mp, mfa, specified, &before);

    /* Paused and restarted: those that something wider wants. */
    counters = (op.paused | op.restarted) & before.flags & ~said->said;
    say_wanted(said, counters, NULL, erts_tracer_nil);
    say_active(said, op.paused, 0);
    say_active(said, op.restarted, 1);

    say_wanted(said, op.wanted, match_spec, meta_tracer);
    /* Nothing has to be said if nothing wider says otherwise. */
    say_unwanted(said, op.unwanted & said_before);
    forget(said, op.unwanted & ~said_before);

    if (mp && said->said == 0) {
        const Operation none = {0, 0, 0, 0};

        change_narrower(mp, mfa, 0, &none);
    }
}

int
erts_kept_patterns_name_module(const KeptPatterns *kept, Eterm module)
{
    const ModulePatterns *mp;

    if (kept->all.flags) {
        return 1;
    }
    mp = get_module(kept, module);
    return mp && mp->patterns;
}

void
erts_kept_patterns_apply(const KeptPatterns *kept, const ErtsCodeMFA *mfa,
                         BpWanted *wanted)
{
    /* All of them are wider than one that would name more than a function. */
    (void) apply_wider(kept, get_module(kept, mfa->module), mfa, 4, wanted);
}

KeptPatterns *
erts_kept_patterns_new(void)
{
    KeptPatterns *kept = erts_alloc(ERTS_ALC_T_BPD, sizeof(KeptPatterns));
    HashFunctions f;

    f.hash = module_hash;
    f.cmp = module_cmp;
    f.alloc = module_alloc;
    f.free = module_free;
    f.meta_alloc = table_alloc;
    f.meta_free = table_free;
    f.meta_print = (HMPRINT_FUN) erts_print;

    init_said(&kept->all);
    hash_init(ERTS_ALC_T_BPD, &kept->modules, "kept_patterns", 10, f);
    return kept;
}

void
erts_kept_patterns_delete(KeptPatterns *kept)
{
    if (kept) {
        const Operation op = {0, KINDS, 0, 0};
        NarrowerArgs args = {NULL, &op};

        hash_foreach(&kept->modules, change_narrower_in_module, &args);
        hash_delete(&kept->modules);
        forget(&kept->all, KINDS);
        erts_free(ERTS_ALC_T_BPD, kept);
    }
}
