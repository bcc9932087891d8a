/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Switch to the alternate screen without cursor and line wrapping, and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

static const int deadly[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const int answered[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
enum { DEADLY = sizeof deadly / sizeof *deadly, ANSWERED = sizeof answered / sizeof *answered };

static struct termios before;
static volatile sig_atomic_t changed; /* the terminal's settings have to be restored */
static int signals = -1;
static sigset_t mask_before;

/* Writes the text, as far as the terminal accepts it. Async-signal-safe. */
static void put(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, text, n);
        if (done < 0 && errno == EAGAIN) { /* NOLINT(bugprone-signal-handler): errno is safe there */
            struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
            if (poll(&p, 1, 1000) <= 0)
                return; /* the terminal is stopped or gone */
        } else if (done < 0 && errno != EINTR) {
            return;
        } else if (done > 0) {
            text += done;
            n -= (size_t)done;
        }
    }
}

static void set_back(void)
{
    if (changed == 0)
        return;
    changed = 0;
    put(leave, sizeof leave - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void on_deadly(int sig)
{
    set_back();
    signal(sig, SIG_DFL);
    raise(sig);
}

static int change(void)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return -errno;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    changed = 1;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
        changed = 0;
        return -errno;
    }
    put(enter, sizeof enter - 1);
    return 0;
}

int cli_terminal_open(void)
{
    static bool registered;
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < ANSWERED; i++)
        sigaddset(&set, answered[i]);
    if (sigprocmask(SIG_BLOCK, &set, &mask_before) != 0)
        return -errno;
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return -errno;
    for (int i = 0; i < DEADLY; i++)
        signal(deadly[i], on_deadly);
    if (!registered)
        (void)atexit(set_back);
    registered = true;
    return change();
}

void cli_terminal_close(void)
{
    set_back();
    for (int i = 0; i < DEADLY; i++)
        signal(deadly[i], SIG_DFL);
    if (signals >= 0) {
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
            /* discards a pending signal, which has been handled */
        }
        close(signals);
        signals = -1;
        (void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
    }
}

void cli_terminal_size(unsigned *rows, unsigned *columns)
{
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *rows = size.ws_row > 0 ? size.ws_row : 24;
    *columns = size.ws_col > 0 ? size.ws_col : 80;
}

void cli_terminal_draw(const char *text, size_t n)
{
    char *out = NULL;
    size_t size = 0;
    unsigned rows, columns;
    cli_terminal_size(&rows, &columns);
    FILE *f = open_memstream(&out, &size);
    if (f == NULL)
        return;
    fputs("\033[H", f);
    const char *end = text + n;
    for (unsigned row = 0; row < rows && text < end; row++) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *stop = eol != NULL ? eol : end;
        bool inverted = text < stop && *text == '\001';
        if (row > 0)
            fputs("\r\n", f);
        if (inverted)
            fputs("\033[7m", f);
        text += inverted;
        (void)fwrite(text, 1, (size_t)(stop - text), f);
        /* The rest of the line, in the same colours. */
        fputs(inverted ? "\033[K\033[0m" : "\033[K", f);
        text = eol != NULL ? eol + 1 : end;
    }
    fputs("\033[J", f);
    if (fclose(f) == 0)
        put(out, size);
    free(out);
}

/* Suspends the program, as the terminal does by default. */
static void suspend(void)
{
    set_back();
    raise(SIGSTOP);
    (void)change();
}

static int64_t left_ms(int64_t until)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = until - ((int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    return ns <= 0 ? 0 : (ns + 999999) / 1000000;
}

int cli_terminal_wait(int64_t until)
{
    for (;;) {
        struct pollfd p[] = {{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
        int64_t ms = until == INT64_MAX ? -1 : left_ms(until);
        int n = poll(p, 2, ms > 60000 ? 60000 : (int)ms);
        struct signalfd_siginfo info;
        if (n < 0 && errno != EINTR)
            return CLI_TERMINAL_END;
        if (n > 0 && (p[0].revents & POLLIN) != 0 &&
            read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo == SIGTSTP)
                suspend();
            return info.ssi_signo == SIGWINCH || info.ssi_signo == SIGTSTP ? CLI_TERMINAL_REDRAW
                                                                           : CLI_TERMINAL_END;
        }
        if (n > 0 && p[1].revents != 0) {
            unsigned char key;
            return read(STDIN_FILENO, &key, 1) == 1 ? key : CLI_TERMINAL_END;
        }
        if (until != INT64_MAX && left_ms(until) == 0)
            return CLI_TERMINAL_TIME;
    }
}
