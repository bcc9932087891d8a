/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo claim DIR: for kymo attach, whose runtime can't lock a folder (kymo_attach_folder.erl). The lock
 * belongs to this process, so the kernel releases it however the process ends. No file is left that
 * could be taken for the claim of a process that has ended.
 *
 * Writes one line: "claimed", "taken", "gone" if there is no such folder, or an error. After "claimed",
 * holds the lock until there is something to read from standard input, or it is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kymo_cli.h"

/* A command that was killed has a claim until its helper notices that, which it does at once. */
#define WAIT_SECONDS 1

static void on_alarm(int sig)
{
    (void)sig; /* only interrupts flock */
}

/* Another command may have removed the folder while this one waited for its lock. */
static bool is_at(int fd, const char *dir)
{
    struct stat held, there;
    return fstat(fd, &held) == 0 && stat(dir, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

/* What to write. The descriptor stays open. */
static const char *claimed(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? "gone" : strerror(errno);
    struct sigaction interrupt = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &interrupt, NULL);
    alarm(WAIT_SECONDS);
    int rc = flock(fd, LOCK_EX), error = errno;
    alarm(0);
    if (rc == 0)
        return is_at(fd, dir) ? "claimed" : "gone";
    if (error == EINTR)
        return "taken";
    /* The file system has no locks. Two copies still can't mix: see kymo_attach_copy.erl. */
    return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK ? "claimed" : strerror(error);
}

int cli_claim(int argc, char **argv)
{
    char byte;
    if (argc != 2)
        return cli_usage(NULL, "claim takes one folder");
    const char *answer = claimed(argv[1]);
    puts(answer);
    int status = cli_flush(KYMO_EXIT_OK);
    if (status == KYMO_EXIT_OK && strcmp(answer, "claimed") == 0)
        while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
            ;
    return status;
}
