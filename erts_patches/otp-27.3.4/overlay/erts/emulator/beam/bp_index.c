/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "global.h"
#include "hash.h"
#include "beam_code.h"
#include "bp_index.h"

/* The end of a chain. */
#define NO_FUNCTION (~(Uint32) 0)

typedef struct {
    HashBucket bucket;          /* Must be first */
    int module;                 /* Atom index */
    const BeamCodeHeader *code_hdr;
    Uint left;                  /* Functions to be indexed, the first ones */
    int shift;                  /* Right shift from hash value to slot of heads */
    Uint32 *heads;              /* First function of each chain */
    Uint32 *next;               /* Next function in the chain, for each function */
} ModuleIndex;

static struct { /* Protected by code modification permission */
    Hash modules;
    int is_used;
} bp_index;

static ERTS_INLINE Uint32
slot_of(const ModuleIndex *ix, Eterm function)
{
    /* Functions of one module often have atoms at regular distances. */
    return ((Uint32) atom_val(function) * (Uint32) 2654435769u) >> ix->shift;
}

static HashValue
module_hash(void *ix)
{
    return ((ModuleIndex *) ix)->module;
}

static int
module_cmp(void *a, void *b)
{
    return ((ModuleIndex *) a)->module != ((ModuleIndex *) b)->module;
}

static void *
module_alloc(void *tmpl)
{
    ModuleIndex *ix = erts_alloc(ERTS_ALC_T_BPD, sizeof(ModuleIndex));

    ix->module = ((ModuleIndex *) tmpl)->module;
    ix->code_hdr = NULL;
    return ix;
}

static void
module_free(void *vix)
{
    ModuleIndex *ix = vix;

    erts_free(ERTS_ALC_T_BPD, ix->heads);
    erts_free(ERTS_ALC_T_BPD, ix);
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

static void
init_modules(void)
{
    HashFunctions f;

    f.hash = module_hash;
    f.cmp = module_cmp;
    f.alloc = module_alloc;
    f.free = module_free;
    f.meta_alloc = table_alloc;
    f.meta_free = table_free;
    f.meta_print = (HMPRINT_FUN) erts_print;
    hash_init(ERTS_ALC_T_BPD, &bp_index.modules, "bp_index", 10, f);
}

void
erts_bp_index_init(void)
{
    init_modules();
    bp_index.is_used = 0;
}

void
erts_bp_index_clear(void)
{
    ERTS_LC_ASSERT(erts_has_code_mod_permission());

    if (bp_index.is_used) {
        hash_delete(&bp_index.modules);
        init_modules();
        bp_index.is_used = 0;
    }
}

static void
begin_to_index(ModuleIndex *ix, const BeamCodeHeader *code_hdr)
{
    const Uint n = (Uint) code_hdr->num_functions;
    int bits = 1;
    Uint i, slots;

    ASSERT(n < NO_FUNCTION);
    while (bits < 31 && ((Uint) 1 << bits) < n) {
        bits++;
    }
    slots = (Uint) 1 << bits;
    ix->shift = 32 - bits;
    ix->code_hdr = code_hdr;
    ix->left = n;
    ix->heads = erts_alloc(ERTS_ALC_T_BPD, (slots + n) * sizeof(Uint32));
    ix->next = ix->heads + slots;

    for (i = 0; i < slots; i++) {
        ix->heads[i] = NO_FUNCTION;
    }
}

/*
 * Index the next functions, at most 'max'. Returns how many.
 */
static Uint
index_some(ModuleIndex *ix, Uint max)
{
    const Uint n = MIN(ix->left, max);
    Uint i;

    for (i = ix->left; i-- > ix->left - n; ) {
        const Eterm function = ix->code_hdr->functions[i]->mfa.function;
        Uint32 *head = &ix->heads[slot_of(ix, function)];

        ix->next[i] = *head;
        *head = (Uint32) i;
    }
    ix->left -= n;
    return n;
}

int
erts_bp_index_match(BpFunctions *f, Module *modp, const ErtsCodeMFA *mfa,
                    int specified, Uint max)
{
    const BeamCodeHeader *code_hdr = modp->curr.code_hdr;
    ModuleIndex tmpl, *ix;
    Uint32 first, fi;

    ERTS_LC_ASSERT(erts_has_code_mod_permission());
    ASSERT(specified >= 2 && code_hdr != NULL);

    f->matched = 0;
    f->matching = NULL;
    f->room = 0;
    f->looked_at = 0;

    tmpl.module = modp->module;
    ix = hash_put(&bp_index.modules, &tmpl);
    bp_index.is_used = 1;
    if (!ix->code_hdr) {
        begin_to_index(ix, code_hdr);
    }
    ASSERT(ix->code_hdr == code_hdr);
    f->looked_at += index_some(ix, max);
    if (ix->left > 0) {
        return 0;
    }

    first = ix->heads[slot_of(ix, mfa->function)];
    for (fi = first; fi != NO_FUNCTION; fi = ix->next[fi]) {
        f->room++;
    }
    f->looked_at += f->room;
    if (f->room == 0) {
        return 1;
    }

    f->matching = erts_alloc(ERTS_ALC_T_BPD, f->room * sizeof(BpFunction));
    for (fi = first; fi != NO_FUNCTION; fi = ix->next[fi]) {
        const ErtsCodeInfo *ci = code_hdr->functions[fi];

        if (ci->mfa.function == mfa->function &&
            (specified < 3 || ci->mfa.arity == mfa->arity)) {
            f->matching[f->matched].code_info = ci;
            f->matching[f->matched].mod = modp;
            f->matched++;
        }
    }
    return 1;
}
