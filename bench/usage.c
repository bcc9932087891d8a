/* SPDX-License-Identifier: Apache-2.0
 *
 * usage FILE COMMAND...: runs the command and writes its resource usage to FILE:
 * processor time in microseconds (its own and the kernel's for it), passed time in
 * microseconds, and the peak of its resident memory in KiB. Exits as the command
 * does; 128 and more after a signal. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long micros(struct timeval t)
{
    return t.tv_sec * 1000000ll + t.tv_usec;
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    struct rusage u;
    int status;
    if (argc < 3) {
        fprintf(stderr, "usage: usage FILE COMMAND...\n");
        return 2;
    }
    long long begin = now();
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &u) != pid) {
        perror("usage");
        return 2;
    }
    long long end = now();
    FILE *f = fopen(argv[1], "w");
    if (f == NULL ||
        fprintf(f, "%lld %lld %ld\n", micros(u.ru_utime) + micros(u.ru_stime), end - begin, u.ru_maxrss) <
            0 ||
        fclose(f) != 0) {
        perror(argv[1]);
        return 2;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
