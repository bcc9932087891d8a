# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of kymo(1) for bash. Commands and options are taken from the output of `kymo help`
# of the same program, so no list has to be maintained here.

_kymo() {
    local cur=${COMP_WORDS[COMP_CWORD]} kymo=${COMP_WORDS[0]} words=
    if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == help ]]; }; then
        words=$("$kymo" help 2>/dev/null | sed -n 's/^  kymo \([a-z]*\) .*/\1/p')
    elif ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == export && $cur != -* ]]; then
        words=$("$kymo" help 2>/dev/null | sed -n 's/^  kymo export \([a-z]*\) .*/\1/p')
    elif [[ $cur == -* ]]; then
        words=$("$kymo" help "${COMP_WORDS[1]}" 2>/dev/null | grep -oE '(^|[ ,])--?[a-z][a-z-]*' | tr -d ' ,')
    fi
    # If no word matches, `-o default` completes files and folders.
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur" | sort -u)
}
complete -o default -F _kymo kymo
