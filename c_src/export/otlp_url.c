/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kymo_otlp.h"

/* Replaces text[from, to) by asterisks, and closes the gap. */
static void replace(char *text, size_t from, size_t to)
{
    static const char shown[] = "***";
    size_t n = to - from < sizeof shown - 1 ? to - from : sizeof shown - 1;
    memcpy(text + from, shown, n);
    memmove(text + from + n, text + to, strlen(text + to) + 1);
}

/* A host and a port have no more characters: a longer text is the beginning of one that was cut. */
enum { HOST_MAX = 260 };

/* A password may contain any character, so everything up to the last @ is taken for one. */
void kymo_hide_secrets(char *text, bool cut)
{
    char *scheme = strstr(text, "://");
    if (scheme == NULL)
        return;
    size_t from = (size_t)(scheme - text) + 3;
    const char *at = strrchr(text + from, '@');
    if (at != NULL)
        replace(text, from, (size_t)(at - text));
    else if (cut || strcspn(text + from, "/?# ") > HOST_MAX)
        replace(text, from, strlen(text));
    const char *query = strchr(text + from, '?');
    if (query != NULL) {
        size_t begin = (size_t)(query - text) + 1;
        replace(text, begin, begin + strcspn(text + begin, " '\"\n"));
    }
}
