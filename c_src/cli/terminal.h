/* SPDX-License-Identifier: Apache-2.0
 *
 * A text screen with keys, for `kymo top`. One instance at a time, one thread.
 *
 * Between open and close the terminal shows its alternate screen, without echo. It is restored
 * at close, at exit, when the program is suspended, and before the program is killed by a
 * signal that can be caught. SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH are blocked and
 * become results of cli_terminal_wait.
 */
#ifndef KYMO_CLI_TERMINAL_H
#define KYMO_CLI_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

enum {
    CLI_TERMINAL_TIME = -1,   /* the time was reached */
    CLI_TERMINAL_END = -2,    /* a signal requests the end, or the terminal is gone */
    CLI_TERMINAL_REDRAW = -3, /* its size changed, or the program was suspended */
};

/* Standard input and output must be terminals. 0 or a negative errno. */
int cli_terminal_open(void);
void cli_terminal_close(void);
/* At least 1 each. */
void cli_terminal_size(unsigned *rows, unsigned *columns);
/* Shows n bytes of UTF-8 text, cut to the screen. A line that begins with \001 is shown
 * inverted. */
void cli_terminal_draw(const char *text, size_t n);
/* The next key (its first byte), or one of the answers above. until: CLOCK_MONOTONIC,
 * nanoseconds; INT64_MAX = for ever. */
int cli_terminal_wait(int64_t until);

#endif
