/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses arbitrary bytes as a request to kymo live. The parts of an accepted request must lie within
 * the bytes, and each prefix must either be incomplete or have the same result as the whole.
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
    /* An exact copy, so that the sanitizer reports reads beyond its end. */
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
    /* A prefix has the result of the whole, or HTTP_MORE. */
    for (size_t n = 0; n < size && n < 512; n++) {
        enum http_parsed part = http_parse(bytes, n, &r);
        if (part != HTTP_MORE && part != whole)
            abort();
    }
    free(bytes);
    return 0;
}
