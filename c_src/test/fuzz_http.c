/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request to kymo live: what is taken lies within the bytes, each beginning of
 * it wanted more, and what follows it makes no difference.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(struct http_text t, const char *bytes, size_t n)
{
    if (t.s != NULL && (t.s < bytes || t.n > n || t.s + t.n > bytes + n))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of its own, so that reading behind it is noticed. */
    char *bytes = malloc(size > 0 ? size : 1);
    struct http_request r;
    if (bytes == NULL)
        return 0;
    if (size > 0)
        memcpy(bytes, data, size);
    enum http_parsed whole = http_parse(bytes, size, &r);
    if (whole == HTTP_DONE) {
        within(r.target, bytes, size);
        within(r.host, bytes, size);
        within(r.origin, bytes, size);
        if (r.target.n == 0 || *r.target.s != '/' || r.host.s == NULL)
            abort();
        (void)http_is_ours(&r, 8080);
    }
    /* The answer to a beginning is that to the whole, or more is wanted. */
    for (size_t n = 0; n < size && n < 512; n++) {
        enum http_parsed part = http_parse(bytes, n, &r);
        if (part != HTTP_MORE && part != whole)
            abort();
    }
    free(bytes);
    return 0;
}
