#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the scripts that fetch, patch and build OTP with a small source tree of OTP's layout that
# builds at once. Each of its three build steps writes a line to runs.log, and the second can be
# made to wait on a pipe.
. "$(dirname "$0")/check.sh"
unset BASE OTP_SRC KYMO_MIRROR KYMO_ERTS_FRESH KYMO_ERTS_WHOLE TYPE FLAVOR MAKEFLAGS MAKELEVEL

otp_source() {
    mkdir -p otp/erts/emulator/beam otp/erts/include/any-any otp/lib
    (
        cd otp
        echo 27.3.4.9 >OTP_VERSION
        for h in erl_nif erl_nif_api_funcs erl_driver erl_drv_nif; do touch erts/emulator/beam/$h.h; done
        touch erts/include/erl_fixed_size_int_types.h erts/include/any-any/erl_int_sizes_config.h
        printf 'one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n' >code.c
        printf '#!/bin/sh\necho status >>../runs.log\n' >erts/config.status
        # OTP breaks long strings in this file at any place, also within a path.
        cat >configure <<'CONFIGURE'
#!/bin/sh
echo configured >>runs.log
start=${PWD%????????}
printf ": <<'END'\n\"-I%s\"\\\\\\n\"%s/include -I%s/include\"\nEND\n" "$start" "${PWD#"$start"}" "$PWD" >>erts/config.status
CONFIGURE
        echo in >erts/emulator/Makefile.in
        cat >Makefile <<'MAKE'
ifdef TYPE
$(error TYPE has leaked into the build)
endif
all: out/one out/two bin/erl
out/one:
	@echo ' CC one'; echo one >>runs.log; mkdir -p out; touch $@
out/two: code.c out/one
	@echo ' CC two'; echo two >>runs.log; echo half >$@
	@if [ -n "$$STARTED" ]; then echo x >"$$STARTED"; read -r x <"$$GOON"; fi
	@if [ -n "$$BREAK" ]; then echo 'error: broken on purpose'; exit 1; fi
	@cp code.c $@
bin/erl: out/two
	@echo ' LD erl'; mkdir -p bin; printf '#!/bin/sh\n# %s\nexit 0\n' "$(CURDIR)" >$@; chmod +x $@
install:
	mkdir -p $(DESTDIR)$(bindir); cp bin/erl $(DESTDIR)$(bindir)/erl
MAKE
        # shellcheck disable=SC2016 # for make
        printf 'opt debug:\n\techo $@ $(FLAVOR) >>../../variants.log\ntest:\n\t@. $(SUITES)\n' >erts/emulator/Makefile
        chmod +x configure erts/config.status
    )
    tar -cf otp.tar otp
}

series() {
    mkdir -p series
    printf 'version 27.3.4.9\nsuite none\npackage erlang\ntarball otp.tar\nsha256 %s\n' \
        "$(sha256sum otp.tar | cut -d' ' -f1)" >series/BASE
}

# Creates a source, a series and a cache for one case.
world() {
    otp_source
    series
    mkdir -p cache/dl
    cp otp.tar cache/dl/
    export KYMO_SERIES=$PWD/series KYMO_CACHE=$PWD/cache KYMO_MIRROR=file://$PWD/none
}

build() { "$TOP/scripts/otp-build" "$@"; }
patch() { "$TOP/scripts/otp-patch" "$@"; }
commits() { "$TOP/scripts/otp-series" "$@"; }
tree() { dirname "$(dirname "$(dirname "$(build print "$1" | cut -d' ' -f1)")")"; }
runs() { tr '\n' ' ' <"$(tree "$1")/src/runs.log"; }

# One patch and one new file, as git exports them.
patched_world() {
    world
    patch edit work >/dev/null
    (
        cd work
        sed -i 's/three/THREE/' code.c
        echo new >added.c
        git add -A
        git -c user.name=A -c user.email=a@localhost commit -q -m "code: Change it" -m "Because."
    )
    patch refresh work
}

builds_once() {
    world
    build stock >first
    has "ready after" first
    same "configured one two " "$(runs stock)"
    build stock >second
    lacks "Building" second
    has "stock:" second
    same "configured one two " "$(runs stock)"
    [ -f "$(tree stock)/src/usr/include/erl_nif.h" ]
}

variables_of_make_do_not_leak() {
    world
    TYPE=debug MAKEFLAGS='-- TYPE=debug' build stock
}

# Stops the script with a signal while step two runs, which the pipes report.
stopped_build_goes_on() {
    world
    mkfifo started goon
    STARTED=$PWD/started GOON=$PWD/goon "$TOP/scripts/otp-build" stock >first 2>&1 &
    pid=$!
    read -r _ <started
    kill -TERM $pid
    rc=0
    wait $pid || rc=$?
    same 130 $rc
    has "the next run goes on" first
    build stock >second
    has "going on with make" second
    same "configured one two two " "$(runs stock)"
    cmp "$(tree stock)/src/out/two" otp/code.c
}

# A killed script cannot stop its children, which still hold the lock.
killed_build_starts_again() {
    world
    mkfifo started goon
    STARTED=$PWD/started GOON=$PWD/goon "$TOP/scripts/otp-build" stock >first 2>&1 &
    pid=$!
    read -r _ <started
    kill -KILL $pid
    wait $pid || :
    build stock >second 2>&1 &
    pid=$!
    echo x >goon
    wait $pid
    lacks "going on" second
    has "ready after" second
    same "configured one two " "$(runs stock)"
}

second_build_waits_for_first() {
    world
    mkfifo started goon
    STARTED=$PWD/started GOON=$PWD/goon "$TOP/scripts/otp-build" stock >first 2>&1 &
    one=$!
    read -r _ <started
    mkfifo output
    build stock >output 2>&1 &
    two=$!
    exec 7<output
    read -r line <&7
    case $line in *"waiting for it") ;; *) fail "$line" ;; esac
    echo x >goon
    wait $one
    wait $two
    same "configured one two " "$(runs stock)"
}

failed_build_tells_where() {
    world
    BREAK=1 refuses out build stock
    has "broken on purpose" out
    log=$(sed -n 's/^ *log: //p' out)
    [ -s "$log" ] || fail "no log"
    build stock
    same "configured one two " "$(runs stock)"
}

patched_builds_only_what_changed() {
    patched_world
    build stock
    build patched >out
    has "1 patches" out
    [ "$(tree stock)" != "$(tree patched)" ]
    same "configured one two " "$(runs stock)"
    same "configured one two two " "$(runs patched)"
    has THREE "$(tree patched)/src/out/two"
    has new "$(tree patched)/src/added.c"
    lacks THREE "$(tree stock)/src/out/two"
    has "$(tree patched)/src" "$(tree patched)/src/bin/erl"
    lacks "$(tree stock)" "$(tree patched)/src/bin/erl"
    same "-I$(tree patched)/src/include -I$(tree patched)/src/include" \
        "$(grep '"' "$(tree patched)/src/erts/config.status" | tr -d '"\\\n')"
    same "$(wc -l <"$(tree stock)/src/erts/config.status")" "$(wc -l <"$(tree patched)/src/erts/config.status")"
}

patched_from_the_source() {
    patched_world
    build stock
    KYMO_ERTS_FRESH=1 build patched >out
    same "configured one two " "$(runs patched)"
    has THREE "$(tree patched)/src/out/two"
}

# Without a mirror everything is compiled, which the output says.
patched_needs_no_stock() {
    patched_world
    build patched >out
    has "everything is compiled here: " out
    same "configured one two " "$(runs patched)"
    has THREE "$(tree patched)/src/out/two"
    [ ! -e "$(tree stock)" ]
}

whole_build_has_its_own_tree() {
    patched_world
    build patched
    KYMO_ERTS_WHOLE=1 build patched >out
    lacks "compiled here" out
    [ "$(tree patched)" != "$(KYMO_ERTS_WHOLE=1 tree patched)" ]
    [ -d "$(KYMO_ERTS_WHOLE=1 tree stock)" ]
}

# Two folders of compiled applications against a tree: which modules are the same sources.
takes_what_is_unchanged() {
    world
    mkdir -p libs/{one-1.2,two-3,three-4}/{ebin,src,include} otp/lib/{one,two,three}/{src/sub,include}
    for module in same changed generated; do echo "$module" >libs/one-1.2/ebin/$module.beam; done
    mkdir libs/one-1.2/src/sub
    echo a | tee libs/one-1.2/src/sub/same.erl otp/lib/one/src/sub/same.erl >libs/one-1.2/src/generated.erl
    echo b >libs/one-1.2/src/changed.erl
    echo c >otp/lib/one/src/changed.erl
    echo made >libs/one-1.2/src/generated.hrl
    # two has a header of another content, which three includes.
    echo d | tee libs/two-3/ebin/two.beam libs/two-3/src/two.erl otp/lib/two/src/two.erl >libs/two-3/include/two.hrl
    echo e >otp/lib/two/include/two.hrl
    echo '-include_lib("two/include/two.hrl").' | tee libs/three-4/src/three.erl >otp/lib/three/src/three.erl
    echo f >libs/three-4/ebin/three.beam
    touch -d '3 hours ago' libs/one-1.2/ebin/same.beam
    "$TOP/scripts/otp-compiled" take otp libs >out
    has "1 of 5 modules" out
    same "otp/lib/one/ebin/same.beam" "$(echo otp/lib/*/ebin/*)"
    [ otp/lib/one/ebin/same.beam -nt libs/one-1.2/ebin/generated.beam ]
}

# change FILE: adds a commit to the checkout of patched_world.
change() {
    echo '# changed' >>"work/$1"
    git -C work -c user.name=A -c user.email=a@localhost commit -q -a -m "change: $1"
    patch refresh work
}

# The name of a build depends on its contents: only a changed diff changes it.
message_of_a_patch_changes_no_build() {
    patched_world
    before=$(tree patched)
    git -C work -c user.name=A -c user.email=a@localhost commit -q --amend -m "code: Change it" -m "For another reason."
    patch refresh work
    has "For another reason." series/0001-code-Change-it.patch
    same "$before" "$(tree patched)"
    git -C work -c user.name=A -c user.email=a@localhost commit -q --amend -m "code: Change this line"
    patch refresh work
    [ -e series/0001-code-Change-this-line.patch ]
    same "$before" "$(tree patched)"
    change code.c
    [ "$before" != "$(tree patched)" ]
}

patched_makefile_is_configured_again() {
    patched_world
    change erts/emulator/Makefile.in
    build stock
    build patched
    same "configured one two status two " "$(runs patched)"
}

patched_configure_starts_from_the_source() {
    patched_world
    change configure
    build patched
    same "configured one two " "$(runs patched)"
}

variants() {
    patched_world
    TYPE=debug FLAVOR=emu build patched >out
    same "debug emu" "$(cat "$(tree patched)/src/variants.log")"
    has "-emu_type debug -emu_flavor emu" out
    TYPE=debug FLAVOR=emu build patched
    same "debug emu" "$(cat "$(tree patched)/src/variants.log")"
    TYPE=nonsense refuses out build patched
    has "TYPE=nonsense" out
}

empty_series_shares_the_build() {
    world
    build patched
    same "$(tree stock)" "$(tree patched)"
}

installs() {
    patched_world
    build install "$PWD/prefix"
    [ -x prefix/bin/erl ]
}

# As for a package: nothing is written below the prefix itself.
installs_below_destdir() {
    patched_world
    build install "$PWD/prefix" root
    [ -x "root/$PWD/prefix/bin/erl" ]
    [ ! -e prefix ]
}

prune_keeps_the_present() {
    patched_world
    build stock
    build patched
    mkdir -p cache/otp/27.3.4.9-0000000000000000/src
    build prune
    [ ! -e cache/otp/27.3.4.9-0000000000000000 ]
    [ -d "$(tree stock)" ]
    [ -d "$(tree patched)" ]
}

bad_hunk_is_named() {
    patched_world
    sed -i 's/^ four$/ vier/' series/0001-*.patch
    refuses out build patched
    has "0001-code-Change-it.patch does not apply to code.c: hunk #1" out
    refuses out patch check
    has "0001-code-Change-it.patch does not apply" out
}

overlay_must_be_new() {
    patched_world
    cp otp/code.c series/overlay/code.c
    refuses out build patched
    has "overlay file code.c exists in the base" out
    refuses out patch check
    has "overlay file code.c exists in the base" out
}

check_of_the_series() {
    patched_world
    patch check >out
    has "1 patches and 1 new files" out
    has "new" series/overlay/added.c
    lacks added.c series/0001-code-Change-it.patch
}

# With "overlay none", the patch has the new file.
new_files_in_patches() {
    patched_world
    echo "overlay none" >>series/BASE
    refuses out patch check
    has "there is no overlay" out
    patch refresh work
    same "0001-code-Change-it.patch BASE" "$(cd series && echo *)"
    has added.c series/0001-code-Change-it.patch
    patch check >out
    has "1 patches and 0 new files" out
    build patched
}

topics_fit_the_patches() {
    patched_world
    mkdir series/topics
    printf '# One\n\nFirst patch: code: Change that\nSuites: emulator:a\n' >series/topics/01-one.md
    refuses out patch check
    has "no patch of series is: code: Change that (01-one.md)" out
    sed -i 's/that/it/' series/topics/01-one.md
    patch check
    same "0001 01-one" "$(commits topics)"
    refuses out commits 02-two
    has "no topic 02-two; these are: 01-one" out
}

check_wants_canonical_patches() {
    patched_world
    sed -i 's/^Because\.$/Because.  /' series/0001-*.patch
    refuses out patch check
    has "not what git exports" out
}

check_finds_strays() {
    patched_world
    touch series/notes.txt
    refuses out patch check
    has "notes.txt" out
}

check_of_an_empty_series() {
    world
    patch check >out
    has "is empty" out
}

refresh_wants_commits() {
    patched_world
    echo more >>work/code.c
    refuses out patch refresh work
    has "not committed" out
}

refresh_takes_patches_away() {
    patched_world
    git -C work reset -q --hard kymo-overlay
    patch refresh work
    same "BASE" "$(ls series)"
}

# The README's instructions for applying the patches with git alone.
git_alone_is_enough() {
    patched_world
    cd otp
    git init -q
    git add -A
    git -c user.name=A -c user.email=a@localhost commit -q -m base
    cp -r ../series/overlay/. .
    git -c user.name=A -c user.email=a@localhost am -q ../series/*.patch
    has THREE code.c
    same "code: Change it" "$(git log -1 --format=%s)"
}

cache_may_be_relative() {
    world
    KYMO_CACHE=cache build stock
    KYMO_CACHE="$PWD/with space" refuses out build stock
    has "path with spaces" out
}

git_checkout_as_source() {
    world
    git -C otp init -q
    git -C otp add -A
    git -C otp -c user.name=A -c user.email=a@localhost commit -q -m base
    OTP_SRC=$PWD/otp build stock
    echo >>otp/code.c
    OTP_SRC=$PWD/otp refuses out build stock
    has "not committed" out
    OTP_SRC=$PWD/nowhere refuses out build stock
    has "no such file" out
}

other_versions_are_refused() {
    world
    echo 28.0 >otp/OTP_VERSION
    tar -cf other.tar otp
    OTP_SRC=$PWD/other.tar refuses out build stock
    has "OTP 28.0; the series is for 27.3" out
    echo text >text
    tar -cf text.tar text
    OTP_SRC=$PWD/text.tar refuses out build stock
    has "holds no source of OTP" out
}

# The source must be of the release that the series is based on.
bases_take_their_own_release() {
    world
    echo 29.1.3 >otp/OTP_VERSION
    tar -cf other.tar otp
    OTP_SRC=$PWD/other.tar refuses out build stock
    has "OTP 29.1.3; the series is for 27.3" out
    sed -i 's/^version .*/version 29.1.1/' series/BASE
    OTP_SRC=$PWD/other.tar build stock
    OTP_SRC=$PWD/otp.tar refuses out build stock
    has "OTP 27.3.4.9; the series is for 29.1" out
}

# The command of a runtime that is not built is printed with a warning, and nothing is fetched for it.
printed_before_built() {
    patched_world
    rm cache/dl/otp.tar
    build print patched >printed 2>warned
    has "this runtime is not built: scripts/otp-build patched," warned
    [ ! -e cache/dl/otp.tar ]
    cp otp.tar cache/dl/
    build patched >out
    has "$(cat printed)" out
    build print patched >printed 2>warned
    [ ! -s warned ]
    TYPE=debug build print patched >printed 2>warned
    has "this runtime is not built" warned
}

# BASE names a series of erts_patches; each has its own name for builds.
bases_by_name() {
    export KYMO_CACHE=$PWD/cache
    same 27.3.4.1 "$(build print version)"
    same 27.3.4.1 "$(BASE=27.3.4 build print version)"
    same 29.1.1 "$(BASE=29.1 build print version)"
    BASE=30 refuses out build print version
    has "there is no series otp-30: BASE is one of 27.3.4 29.1" out
}

# A file with a wrong checksum is refused, wherever it was found.
sums_are_checked() {
    world
    echo more >>cache/dl/otp.tar
    refuses out build stock
    has "could not fetch otp.tar" out
    [ ! -e cache/dl/otp.tar ]
}

# Cached files need no network. Without cache and network, the script lists where it looked.
debian_otp_is_fetched_once() {
    export KYMO_CACHE=$PWD/cache KYMO_MIRROR=file://$PWD/none
    refuses out "$TOP/scripts/otp-debian"
    has "could not fetch OTP of Debian" out
    has "file://$PWD/none" out
    same "$PWD/cache/debian/log" "$("$TOP/scripts/otp-debian" log)"
    erl=$PWD/cache/debian/forky-$(dpkg --print-architecture)/usr/lib/erlang/bin/erl
    mkdir -p "$(dirname "$erl")"
    printf '#!/bin/sh\n' >"$erl"
    chmod +x "$erl"
    same "$erl" "$("$TOP/scripts/otp-debian")"
    refuses out "$TOP/scripts/otp-debian" update
    same "$erl" "$("$TOP/scripts/otp-debian")"
    KYMO_SUITE=trixie refuses out "$TOP/scripts/otp-debian"
    has "could not fetch OTP of Debian trixie" out
    KYMO_SUITE=../x refuses out "$TOP/scripts/otp-debian"
    has "the name of a suite" out
}

# Common Test prints a result for each suite, and has one exit status for all.
suites_are_added_up() {
    world
    build stock >/dev/null
    export SUITES=$PWD/suites KYMO_RESULTS=$PWD/results
    suites() { "$TOP/scripts/otp-suites" stock emulator:a emulator:b; }
    complete() { echo "echo Testing x.$1_SUITE: TEST COMPLETE, $2 test cases" >>suites; }
    complete a "3 ok, 0 failed, 1 skipped of 4"
    complete b "20 ok, 0 failed of 20"
    suites >out
    has "23 passed, 0 failed, 1 skipped" out
    same "23 0 1" "$(cut -f2-4 results | tr '\t' ' ')"
    # A failed suite that is not the last one; then one that did not end; then a failure outside
    # of all cases.
    echo >suites
    complete a "3 ok, 2 failed of 5"
    complete b "20 ok, 0 failed of 20"
    refuses out suites
    has "23 passed, 2 failed, 0 skipped" out
    echo >suites
    complete a "3 ok, 0 failed of 3"
    refuses out suites
    has "1 of 2 suites whole" out
    has "3 passed, 1 failed" out
    complete b "1 ok, 0 failed, 7 skipped of 8"
    echo "exit 1" >>suites
    refuses out suites
    has "4 passed, 1 failed, 7 skipped" out
}

for case in builds_once variables_of_make_do_not_leak stopped_build_goes_on killed_build_starts_again \
    second_build_waits_for_first failed_build_tells_where patched_builds_only_what_changed \
    patched_from_the_source patched_needs_no_stock whole_build_has_its_own_tree takes_what_is_unchanged message_of_a_patch_changes_no_build patched_makefile_is_configured_again \
    patched_configure_starts_from_the_source variants empty_series_shares_the_build installs installs_below_destdir prune_keeps_the_present \
    bad_hunk_is_named overlay_must_be_new check_of_the_series new_files_in_patches topics_fit_the_patches check_wants_canonical_patches \
    check_finds_strays check_of_an_empty_series refresh_wants_commits refresh_takes_patches_away \
    git_alone_is_enough suites_are_added_up cache_may_be_relative git_checkout_as_source other_versions_are_refused \
    bases_take_their_own_release printed_before_built bases_by_name sums_are_checked \
    debian_otp_is_fetched_once; do
    run_case "$case"
done
[ "$failures" = 0 ]
