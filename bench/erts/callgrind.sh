# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the benchmarks that count instructions. FLAVOR=emu in the environment counts those
# of the interpreter, for releases whose JIT valgrind cannot execute.

# run_counted ERL OUT ARGUMENT...: executes an Erlang program with one scheduler of each kind
# under valgrind, which writes files OUT/callgrind*. Shows the program's output and exits with
# 2 if it fails. The JIT writes code through a different mapping than the one it is executed
# from; valgrind would not notice such changes, hence -JMsingle.
run_counted() {
    local root bindir out=$2 emulator=beam.smp single=(-JMsingle true)
    if [ "${FLAVOR:-jit}" = emu ]; then emulator=beam.emu single=(); fi
    root=$("$1" -noshell -noinput -eval 'io:put_chars(code:root_dir()), halt().')
    bindir=$(dirname "$(find "$root/bin" "$root"/erts-*/bin -name erlexec 2>/dev/null | head -n 1)")
    rm -f "$out"/callgrind*
    ROOTDIR=$root BINDIR=$bindir EMU=beam PROGNAME=erl valgrind -q --tool=callgrind --smc-check=all \
        --callgrind-out-file="$out/callgrind" "$bindir/$emulator" \
        -S 1:1 -SDcpu 1:1 -SDio 1 -A 1 -sbwt none -sbwtdcpu none -sbwtdio none "${single[@]}" -- \
        -root "$root" -bindir "$bindir" -progname erl -home "$out" -- -mode minimal -noshell -noinput \
        -pa "$out" "${@:3}" </dev/null >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 2; }
}

# instructions_per_round ERL OUT MODULE N: the instructions of a round of
# MODULE:main/0 that executes N rounds; those of a run without rounds are subtracted. Both are the
# minimum of three runs, because some runs have work that others have not: the threads of the
# runtime poll and wake each other, and a dirty scheduler may handle signals.
instructions_per_round() {
    local none all
    none=$(fewest_instructions "$1" "$2" "$3" 0) || return
    all=$(fewest_instructions "$@") || return
    awk -v a="$none" -v b="$all" -v n="$4" 'BEGIN { printf "%.2f", (b - a) / n }'
}

# fewest_instructions ERL OUT MODULE N
fewest_instructions() {
    local run
    for run in 1 2 3; do
        run_counted "$1" "$2" -n "$4" -s "$3" main
        sed -n 's/^\(totals\|summary\): \([0-9]*\).*/\2/p' "$2/callgrind" | head -n 1
    done | sort -n | head -n 1
}
