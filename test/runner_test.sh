#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the scripts that run tests and count results: no kind of failure may be lost. They run in a
# small project with failures of each kind. Arguments name the cases to run.
. "$(dirname "$0")/check.sh"
unset KYMO_RESULTS MAKEFLAGS MAKELEVEL ERL ERL_LIBS OUT

# The tool that run-ct builds for suites that need it.
tool_deny_rule() {
    # shellcheck disable=SC2016 # for make
    printf '%%/tool_deny:\n\t@mkdir -p $(@D) && touch $@\n'
}

# The scripts use their parent folder as the project.
project() {
    mkdir -p project/src project/c_src project/test
    cp -r "$TOP/scripts" "$TOP/Makefile" project/
    cp "$TOP/test/kymo_ct.erl" project/test/
    cp "$TOP/src/kymo.app.src" project/src/
    mkdir project/priv
    cp -r "$TOP/priv/example" project/priv/
    { printf 'all tests fuzzers:\n\t@true\n' && tool_deny_rule; } >project/c_src/Makefile
    # Missing packages do not matter here.
    printf '#!/bin/sh\n' >project/scripts/bootstrap
    mkdir -p project/build/test
    cd project
}

suite() {
    {
        printf -- '-module(%s_SUITE).\n-compile(export_all).\n-compile(nowarn_export_all).\n' "$1"
        cat
    } >"test/$1_SUITE.erl"
}

# Sorted, because suites run in parallel.
results() { cut -f2-4 build/test/results.tsv | sort | tr '\t\n' ' ;'; }

prog() { printf '#!/bin/sh\n%s\n' "$1" >prog && chmod +x prog; }

suites_are_counted() {
    project
    suite mixed <<'ERL'
all() -> [good, good_again, bad, skipped, dies, {group, g}].
groups() -> [{g, [], [in_group]}].
good(_) -> ok.
good_again(_) -> {comment, "fine"}.
bad(_) -> error(on_purpose).
skipped(_) -> {skip, "not here"}.
dies(_) -> exit(kill).
init_per_group(g, Config) -> Config.
end_per_group(g, _) -> ok.
in_group(_) -> ok.
ERL
    refuses out scripts/run-ct
    same "3 2 1;" "$(results)"
    has "FAILED  mixed_SUITE:bad" out
    has "on_purpose" out
    has "skip    mixed_SUITE:skipped: not here" out
    has "ok      mixed_SUITE:good" out
    has "log:" out
}

nodes_have_the_emulator_that_is_tested() {
    project
    suite node <<'ERL'
all() -> [emulator].
emulator(_) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io, args => ["+S", "1:1"]}),
    {ok, [["opt"]]} = peer:call(Peer, init, get_argument, [emu_type]),
    1 = peer:call(Peer, erlang, system_info, [schedulers]),
    peer:stop(Peer).
ERL
    scripts/run-ct --erl "erl -emu_type opt +S 2:2" >out || { cat out; exit 1; }
    same "1 0 0;" "$(results)"
    # A suite that is tested with the default emulator does not start others.
    refuses out scripts/run-ct
    has "badmatch" out
}

good_suites_pass() {
    project
    suite good <<'ERL'
all() -> [good].
good(_) -> kymo_ct = kymo_ct, ok.
ERL
    scripts/run-ct >out
    same "1 0 0;" "$(results)"
    scripts/run-ct good_SUITE:good >out
    same "1 0 0;1 0 0;" "$(results)"
}

# Two suites that wait for each other must run in parallel, and their outputs are not mixed.
suites_run_side_by_side() {
    project
    for me in one two; do
        mkfifo "$me"
        suite $me <<ERL
all() -> [meets, again].
meets(_) ->
    {Out, In} = case $me of one -> {"one", "two"}; two -> {"two", "one"} end,
    Dir = os:getenv("MEETING"),
    Write = fun() -> os:cmd("echo here >" ++ filename:join(Dir, Out)) end,
    Read = fun() -> "here\\n" = os:cmd("cat " ++ filename:join(Dir, In)) end,
    case $me of one -> Write(), Read(); two -> Read(), Write() end.
again(_) -> ok.
ERL
    done
    MEETING=$PWD KYMO_JOBS=2 KYMO_SUITE_SECONDS=60 scripts/run-ct >out
    same "2 0 0;2 0 0;" "$(results)"
    grep -oE '(one|two)_SUITE' out | uniq >order
    same 2 "$(wc -l <order)"
    # If one of them fails, the run fails.
    suite zwei <<'ERL'
all() -> [bad].
bad(_) -> error(on_purpose).
ERL
    KYMO_JOBS=1 refuses out scripts/run-ct zwei_SUITE two_SUITE:again
}

what_could_not_run_has_failed() {
    project
    suite broken <<'ERL'
all() -> [one, two].
init_per_suite(_) -> error(no_way).
end_per_suite(_) -> ok.
one(_) -> ok.
two(_) -> ok.
ERL
    refuses out scripts/run-ct
    has "could not run" out
    same "0 2 0;" "$(results)"
}

skipped_groups_and_suites_are_no_failures() {
    project
    suite absent <<'ERL'
all() -> [one, two].
init_per_suite(_) -> {skip, "nothing to test with"}.
end_per_suite(_) -> ok.
one(_) -> ok.
two(_) -> ok.
ERL
    suite half <<'ERL'
all() -> [one, {group, g}].
groups() -> [{g, [], [two, three]}].
init_per_group(g, _) -> {skip, "no g"}.
end_per_group(g, _) -> ok.
one(_) -> ok.
two(_) -> ok.
three(_) -> ok.
ERL
    scripts/run-ct >out
    same "0 0 2;1 0 2;" "$(results)"
    has "nothing to test with" out
    has "no g" out
}

runtime_that_dies_is_a_failure() {
    project
    suite crash <<'ERL'
all() -> [good, crash].
good(_) -> ok.
crash(_) -> erlang:halt(abort).
ERL
    suite later <<'ERL'
all() -> [good].
good(_) -> ok.
ERL
    refuses out scripts/run-ct
    same "1 0 0;1 1 0;" "$(results)"
    has "the runtime ended with status" out
}

runtime_that_stops_early_is_a_failure() {
    project
    suite leaves <<'ERL'
all() -> [good, leaves].
good(_) -> ok.
leaves(_) -> erlang:halt(0).
ERL
    refuses out scripts/run-ct
    same "1 1 0;" "$(results)"
}

suite_without_cases_is_a_failure() {
    project
    suite empty <<'ERL'
all() -> [].
ERL
    refuses out scripts/run-ct
    same "0 1 0;" "$(results)"
}

code_that_does_not_compile_is_a_failure() {
    project
    suite wrong <<'ERL'
all() -> [.
ERL
    refuses out scripts/run-ct
    same "0 1 0;" "$(results)"
    has "log:" out
}

programs_are_counted() {
    project
    prog 'echo "[ RUN      ] a"; echo "noise[       OK ] a"; echo "[ RUN      ] b"; echo "[       OK ] b"'
    scripts/run-prog good ./prog >out
    same "2 0 0;" "$(results)"
}

skipped_tests_are_counted() {
    project
    prog 'echo "[ RUN      ] a"; echo "[       OK ] a"; echo "[ RUN      ] b"; echo "[  SKIPPED ] b"; echo "[  SKIPPED ] 1 test(s), listed below:"'
    scripts/run-prog skipping ./prog >out
    same "1 0 1;" "$(results)"
}

crash_in_a_test_is_a_failure() {
    project
    prog 'echo "[ RUN      ] a"; echo "[       OK ] a"; echo "[ RUN      ] b"; kill -SEGV $$'
    refuses out scripts/run-prog crash ./prog
    same "1 1 0;" "$(results)"
    has "ended by signal 11" out
}

crash_between_tests_is_a_failure() {
    project
    prog 'echo "[ RUN      ] a"; echo "[       OK ] a"; exit 3'
    refuses out scripts/run-prog crash ./prog
    same "1 1 0;" "$(results)"
}

program_without_tests_is_a_failure() {
    project
    prog 'exit 0'
    refuses out scripts/run-prog nothing ./prog
    same "0 1 0;" "$(results)"
}

hanging_program_is_a_failure() {
    project
    # Reads from a pipe without a writer.
    mkfifo pipe
    prog 'echo "[ RUN      ] a"; read x <>pipe'
    KYMO_TEST_SECONDS=1 refuses out scripts/run-prog hang ./prog
    same "0 1 0;" "$(results)"
    has "it took longer than 1 s" out
}

# A suite for --asan, whose NIF makes the requested error.
nif_project() {
    project
    mkdir c_src/nif
    cat >c_src/nif/wild.c <<'C'
#include <erl_nif.h>
#include <stdlib.h>
static ERL_NIF_TERM use(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int at = 0;
    (void)argc;
    char *p = enif_alloc(10);
    p[9] = 0;
    enif_get_int(env, argv[0], &at);
    at = ((volatile char *)p)[at];
    enif_free(p);
    return enif_make_int(env, at);
}
static ERL_NIF_TERM lose(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    *(volatile char *)malloc(10) = 1;
    return argv[0];
}
static ERL_NIF_TERM shift(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int by = 0;
    (void)argc;
    enif_get_int(env, argv[0], &by);
    return enif_make_int(env, 1 << by);
}
static ErlNifFunc functions[] = {{"use", 1, use, 0}, {"lose", 1, lose, 0}, {"shift", 1, shift, 0}};
ERL_NIF_INIT(wild_SUITE, functions, NULL, NULL, NULL, NULL)
C
    # shellcheck disable=SC2016 # for make
    {
        printf 'all:\n\t@mkdir -p $(PRIV)\n'
        printf '\t$(CC) -g -fPIC -shared -fsanitize=$(SAN) -isystem %s -o $(PRIV)/wild.so nif/wild.c\n' \
            "$(make -s -C "$TOP/c_src" print-erts-include)"
        tool_deny_rule
    } >c_src/Makefile
    suite wild <<'ERL'
-on_load(load/0).
-nifs([use/1, lose/1, shift/1]).
load() -> erlang:load_nif(filename:join(code:priv_dir(kymo), "wild"), 0).
use(_) -> erlang:nif_error(not_loaded).
lose(_) -> erlang:nif_error(not_loaded).
shift(_) -> erlang:nif_error(not_loaded).
all() -> [good, beyond, leak, undefined].
good(_) -> 0 = use(9), 8 = shift(3).
beyond(_) -> use(10).
leak(_) -> [lose(I) || I <- lists:seq(1, 10)].
undefined(_) -> shift(40).
ERL
}

good_code_passes_the_sanitizers() {
    nif_project
    scripts/run-ct --asan wild_SUITE:good >out || { cat out; exit 1; }
    same "1 0 0;" "$(results)"
}

sanitizers_see_the_block_of_a_nif() {
    nif_project
    refuses out scripts/run-ct --asan wild_SUITE:beyond
    has "heap-buffer-overflow" out
    has "nif/wild.c" out
}

sanitizers_see_what_is_undefined() {
    nif_project
    refuses out scripts/run-ct --asan wild_SUITE:undefined
    has "runtime error: shift exponent 40" out
}

# Leaks of the runtime itself are not counted.
sanitizers_see_what_is_lost() {
    nif_project
    refuses out scripts/run-ct --asan wild_SUITE:leak
    same "1 1 0;" "$(results)"
    has "leak of 100 byte" out
    has "nif/wild.c" out
}

# The last line and the status of a whole run.
last_line_is_the_total() {
    project
    suite mixed <<'ERL'
all() -> [good, skipped].
good(_) -> ok.
skipped(_) -> {skip, "not here"}.
ERL
    bash scripts/test c suites >out
    same "1 passed, 0 failed, 1 skipped" "$(tail -n 1 out)"
    has "Slowest:" out
    suite bad <<'ERL'
all() -> [good, bad].
good(_) -> ok.
bad(_) -> ct:fail("as it should").
ERL
    refuses out bash scripts/test c suites
    same "2 passed, 1 failed, 1 skipped" "$(tail -n 1 out)"
    has "bad_SUITE: 1 failed, log" out
    sed -n '/^Failed:/,$p' out >end
    has "FAILED  bad_SUITE:bad" end
    has "as it should" end
}

unknown_parts_are_refused() {
    project
    refuses out bash scripts/test suites bogus
    has "bogus is none of quick" out
}

# The rest adds to the totals of what has run, as long as there is time.
rest_adds_to_the_run() {
    project
    refuses out bash scripts/test rest
    has "rest of what?" out
    suite good <<'ERL'
all() -> [good].
good(_) -> ok.
ERL
    bash scripts/test c suites
    KYMO_MINUTES=1 KYMO_BEGUN=60 bash scripts/test rest >out
    same "1 passed, 0 failed" "$(tail -n 1 out)"
    has "did not run, for lack of time: asan sanitizers newest" out
}

# A list of suites that names one that does not exist.
missing_suite_is_a_failure() {
    project
    refuses out bash scripts/test asan
    same "0 passed, 1 failed" "$(tail -n 1 out)"
    has "erl_msg_tracer_SUITE, which does not exist" out
}

nothing_run_is_no_success() {
    project
    rm -f test/*_SUITE.erl
    refuses out bash scripts/test c suites
    has "1 failed" out
}

# The same seeds make the same archive, whenever they are added and whatever their files are.
seeds_are_added() {
    project
    mkdir -p c_src/test/seeds more
    touch c_src/test/fuzz_one.c c_src/test/fuzz_reader.c c_src/test/fuzz_cli.c
    echo first >a
    echo second >'-b c'
    scripts/fuzz add fuzz_one a >out
    has "1 seeds" out
    scripts/fuzz add fuzz_one '-b c' >out
    # Recordings serve two targets.
    scripts/fuzz add fuzz_cli a >out
    has "c_src/test/seeds/fuzz_reader.tar.gz: 1 seeds" out
    tar -xzf c_src/test/seeds/fuzz_one.tar.gz -C more
    same "first second " "$(cat more/a 'more/-b c' | tr '\n' ' ')"
    cp c_src/test/seeds/fuzz_one.tar.gz before
    rm c_src/test/seeds/fuzz_one.tar.gz
    chmod 600 a
    touch -d 2001-01-01 a
    scripts/fuzz add fuzz_one '-b c' a >out
    cmp before c_src/test/seeds/fuzz_one.tar.gz
    refuses out scripts/fuzz add fuzz_none a
    has "fuzz_none is not a fuzz target" out
    refuses out scripts/fuzz add fuzz_one no-such-file
    cmp before c_src/test/seeds/fuzz_one.tar.gz
}

# A target runs from its seeds. If they cannot be read, it has failed.
seeds_are_run() {
    project
    mkdir -p c_src/test/seeds build/fuzz/test
    touch c_src/test/fuzz_one.c
    cat >build/fuzz/test/fuzz_one <<'SH'
#!/bin/sh
for dir; do :; done
cat "$dir"/*
SH
    chmod +x build/fuzz/test/fuzz_one
    echo a seed >a
    scripts/fuzz add fuzz_one a >out
    scripts/fuzz runs 1 >out
    has "nothing found" out
    has "a seed" build/test/logs/fuzz_one.log
    echo damaged >c_src/test/seeds/fuzz_one.tar.gz
    refuses out scripts/fuzz runs 1
    has "fuzz_one: its seeds could not be unpacked" out
    same "0 1 0;1 0 0;" "$(results)"
}

cases=(suites_are_counted good_suites_pass suites_run_side_by_side what_could_not_run_has_failed
    skipped_groups_and_suites_are_no_failures runtime_that_dies_is_a_failure
    runtime_that_stops_early_is_a_failure suite_without_cases_is_a_failure
    code_that_does_not_compile_is_a_failure programs_are_counted skipped_tests_are_counted
    crash_in_a_test_is_a_failure crash_between_tests_is_a_failure program_without_tests_is_a_failure
    hanging_program_is_a_failure good_code_passes_the_sanitizers sanitizers_see_the_block_of_a_nif
    sanitizers_see_what_is_undefined sanitizers_see_what_is_lost last_line_is_the_total
    unknown_parts_are_refused rest_adds_to_the_run missing_suite_is_a_failure nothing_run_is_no_success seeds_are_added seeds_are_run nodes_have_the_emulator_that_is_tested)
[ $# = 0 ] || cases=("$@")
for case in "${cases[@]}"; do
    run_case "$case"
done
[ "$failures" = 0 ]
