/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_deny CALL ERRNO PROGRAM [ARGS]: runs a program whose system call CALL fails with ERRNO (a number), or
 * ends the process if ERRNO is `kill`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deny.h"

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 3 && i < DENY_CALLS; i++) {
        if (strcmp(argv[1], deny_calls[i].name) != 0)
            continue;
        if (!deny(deny_calls[i].nr, strcmp(argv[2], "kill") == 0
                                        ? SECCOMP_RET_KILL_PROCESS
                                        : SECCOMP_RET_ERRNO | (uint32_t)strtoul(argv[2], NULL, 10))) {
            perror("seccomp");
            return 2;
        }
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        return 2;
    }
    fprintf(stderr, "usage: tool_deny CALL ERRNO|kill PROGRAM [ARGS]\n");
    return 2;
}
