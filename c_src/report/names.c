/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

struct report_name {
    uint64_t id;
    enum report_name_kind kind;
};

void report_names_init(struct report_names *names, const struct cli_analysis *a)
{
    *names = (struct report_names){.a = a};
    for (unsigned i = 0; i < REPORT_KINDS; i++)
        kymo_map_init(&names->index[i], sizeof(uint32_t));
}

void report_names_free(struct report_names *names)
{
    for (unsigned i = 0; i < REPORT_KINDS; i++)
        kymo_map_free(&names->index[i]);
    free(names->list);
}

uint32_t report_name(struct report_names *names, enum report_name_kind kind, uint64_t id)
{
    bool added;
    uint64_t key = kind == REPORT_ROLE ? kymo_naming_role(names->a->naming, id) : id;
    uint32_t *number = kymo_map_put(&names->index[kind], key, &added);
    if (number == NULL) {
        names->failed = true;
        return 0;
    }
    if (!added)
        return *number;
    if (names->n == names->room) {
        size_t room = names->room == 0 ? 1024 : names->room * 2;
        struct report_name *more = realloc(names->list, room * sizeof *more);
        if (more == NULL) {
            names->failed = true;
            return 0;
        }
        names->list = more;
        names->room = room;
    }
    *number = (uint32_t)names->n;
    names->list[names->n++] = (struct report_name){id, kind};
    return *number;
}

void report_names_json(const struct report_names *names, const char *key)
{
    char text[2300];
    cli_json_open(key, '[');
    for (size_t i = 0; i < names->n; i++) {
        const struct report_name *n = &names->list[i];
        switch (n->kind) {
        case REPORT_FUNCTION: kymo_name_function(names->a->naming, (uint32_t)n->id, text, sizeof text); break;
        case REPORT_PROCESS: kymo_name_process(names->a->naming, n->id, text, sizeof text); break;
        case REPORT_ROLE: kymo_name_role(names->a->naming, n->id, text, sizeof text); break;
        case REPORT_GC: strcpy(text, "(garbage collection)"); break;
        default: strcpy(text, "(others)");
        }
        cli_json_text(NULL, text);
    }
    cli_json_close(']');
}
