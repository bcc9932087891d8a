# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the other scripts: where things are, how to speak, how to count.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
export TOP

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Where everything that takes long to make is kept, outside the checkout.
cache_dir() { printf '%s' "${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}"; }

cpus() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1; }

# 3m07s from a number of seconds.
span() {
    if [ "$1" -ge 60 ]; then printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); else printf '%ds' "$1"; fi
}

# Variables that our own make, or a user's shell, may have set and that would
# change what a build of another project does.
clean_environment() {
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES MAKEFILES GNUMAKEFLAGS TYPE FLAVOR BASE PREFIX DESTDIR
    unset ERL ERLC ERL_TOP ERL_LIBS ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_COMPILER_OPTIONS ERLC_OPTS
    unset ERTS_INCLUDE_DIR CFLAGS CPPFLAGS LDFLAGS OUT PRIV BUILD BUILD_ROOT SAN WERROR
}

# side_by_side FUNCTION ITEM...: FUNCTION ITEM for each, KYMO_JOBS of them at a time (as
# many as there are processors). What one says comes in one piece when it has ended. False
# when one of them was.
side_by_side() {
    local function=$1 item running=0 status=0 jobs=${KYMO_JOBS:-$(cpus)}
    shift
    for item; do
        if [ "$running" -ge "$jobs" ]; then
            wait -n || status=1
            running=$((running - 1))
        fi
        (
            exec 7>&- # a lock of the caller's
            said=$("$function" "$item" 2>&1)
            rc=$?
            exec 6>>"$RESULTS.lock"
            flock 6
            [ -z "$said" ] || printf '%s\n' "$said"
            exit $rc
        ) &
        running=$((running + 1))
    done
    while [ "$running" -gt 0 ]; do
        wait -n || status=1
        running=$((running - 1))
    done
    return $status
}

# Results of a test run: one line "label<TAB>passed<TAB>failed<TAB>skipped<TAB>log<TAB>seconds"
# per program, the seconds only where something was run.
RESULTS=${KYMO_RESULTS:-$TOP/build/test/results.tsv}
record() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" "${6:-0}" >>"$RESULTS"; }

# failures_in LOG: which cases failed, of OTP's suites, of ours, of C tests, or what a build said.
failures_in() {
    grep -aE '_SUITE:.* failed on line|^Reason:|^##   FAILED|\[  FAILED  \]|[Ee]rror: |ERROR: |\*\*\* \[' "$1" | head -n 6
}
