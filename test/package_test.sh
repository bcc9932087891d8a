#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests kymo as users get it: built by rebar3 alone, as a dependency, in a release, installed, and
# as a package; and the search for missing packages. Except for debian_13 there is no network: the
# proxy does not exist. Arguments name the cases to run.
. "$(dirname "$0")/check.sh"
unset MIX_REBAR3 MIX_HOME MIX_ENV HEX_HOME MAKEFLAGS MAKELEVEL ERL ERLC ERL_LIBS ERL_FLAGS OUT PRIV BUILD BUILD_ROOT ERTS_INCLUDE_DIR DESTDIR PREFIX
# The same sources are compiled in many folders.
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$WORK/ccache CCACHE_BASEDIR=$WORK CCACHE_NOHASHDIR=1
export HOME=$WORK http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 REBAR_COLOR=none

# Copies the files that git tracks, with their present contents, and no built files.
checkout() {
    mkdir -p "$1"
    if git -C "$TOP" rev-parse -q --git-dir >/dev/null 2>&1; then
        (cd "$TOP" && git ls-files -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
            tar -c --null -T -) | tar -x -C "$1"
    else
        tar -C "$TOP" --exclude=./build --exclude=./_build --exclude=./ebin --exclude='./priv/*.so' \
            --exclude=./priv/bin -c . | tar -x -C "$1"
    fi
}

git_repository() {
    checkout "$1"
    git -C "$1" init -q -b main
    git -C "$1" add -A
    git -C "$1" -c user.name=A -c user.email=a@localhost commit -q -m kymo
}

# An application that needs all parts of kymo to start: both NIFs and the command.
sample() {
    mkdir -p "$1/src"
    cat >"$1/src/sample.app.src" <<'ERL'
{application, sample, [{description, "x"}, {vsn, "1"}, {registered, []}, {modules, []},
                       {mod, {sample, []}}, {applications, [kernel, stdlib, kymo]}]}.
ERL
    cat >"$1/src/sample.erl" <<'ERL'
-module(sample).
-behaviour(application).
-export([start/2, stop/1, check/0]).
start(_, _) -> {ok, spawn_link(fun() -> receive stop -> ok end end)}.
stop(_) -> ok.
check() ->
    Priv = code:priv_dir(kymo),
    true = filelib:is_regular(filename:join([Priv, "bin", "kymo"])),
    ok = erl_msg_tracer:load(),
    Dir = filename:join(os:getenv("SAMPLE_OUT"), "recording"),
    _ = kymo:record(Dir, #{functions => ["lists:reverse/1"]}, fun() -> lists:reverse([1, 2, 3]) end),
    Text = os:cmd("'" ++ unicode:characters_to_list(kymo:cli_path()) ++ "' print '" ++ Dir ++ "'"),
    true = string:find(Text, "lists:reverse/1") =/= nomatch,
    io:format("sample works in ~ts~n", [Priv]).
ERL
}

start_sample() { # PATHS...
    SAMPLE_OUT=$PWD erl -noshell -noinput -pa "$@" -eval '
        {ok, _} = application:ensure_all_started(sample), sample:check(), halt().' </dev/null
}

rebar3_alone() {
    checkout kymo
    cd kymo
    rebar3 compile
    ERL_LIBS=_build/default/lib erl -noshell -noinput -eval '
        {ok, _} = application:ensure_all_started(kymo), ok = erl_msg_tracer:load(), halt().' </dev/null
    _build/default/lib/kymo/priv/bin/kymo --help >/dev/null
    rebar3 ct --suite=test/erl_msg_tracer_SUITE >out 2>&1 || { cat out; exit 1; }
    has "All 13 tests passed" out
    rebar3 clean
    [ ! -e priv/kymo_tracer.so ]
}

git_dependency_and_release() {
    git_repository kymo
    sample sample
    cat >sample/rebar.config <<ERL
{deps, [{kymo, {git, "file://$PWD/kymo", {branch, "main"}}}]}.
{relx, [{release, {sample, "1"}, [sample, kymo]}, {dev_mode, false}, {include_erts, false},
        {extended_start_script, false}]}.
ERL
    cd sample
    rebar3 compile
    start_sample _build/default/lib/*/ebin >out
    has "sample works in" out
    rebar3 release >release.out 2>&1 || { tail -n 20 release.out; exit 1; }
    # The release does not depend on its location.
    mv _build/default/rel/sample ../moved
    rm -rf _build
    cd ..
    rm -rf kymo
    SAMPLE_OUT=$PWD moved/bin/sample -noshell -noinput -eval 'sample:check(), halt().' </dev/null >out 2>&1 ||
        { cat out; exit 1; }
    has "sample works in $PWD/moved/lib/kymo-" out
}

# mix_sample DEPENDENCY: a mix project with this dependency, without hex and rebar3.
mix_sample() {
    mkdir -p sample/lib
    cat >sample/mix.exs <<EX
defmodule Sample.MixProject do
  use Mix.Project
  def project, do: [app: :sample, version: "1.0.0", deps: [{:kymo, $1}]]
  def application, do: [extra_applications: [:logger]]
end
EX
    cat >sample/lib/sample.ex <<'EX'
defmodule Sample do
  def check(dir) do
    true = List.keymember?(Application.started_applications(), :kymo, 0)
    :ok = :erl_msg_tracer.load()
    {:ok, [2, 1], _} = :kymo.record(dir, %{functions: ["lists:reverse/1"]}, fn -> :lists.reverse([1, 2]) end)
    {text, 0} = System.cmd(to_string(:kymo.cli_path()), ["print", dir])
    true = text =~ "lists"
    IO.puts("sample works in #{:code.priv_dir(:kymo)}")
  end
end
EX
    cd sample
    mix deps.get </dev/null >out 2>&1 || { cat out; exit 1; }
    mix run -e 'Sample.check("recording")' </dev/null >>out 2>&1 || { cat out; exit 1; }
    has "sample works in $PWD/_build/dev/lib/kymo/priv" out
    cat >shell <<'EX'
h :kymo.snapshot
spawn(fn -> Stream.run(Stream.repeatedly(fn -> Enum.sort([2, 1]); Process.sleep(1) end)) end)
:kymo.calls("Enum.sort/1", %{count: 2, time: 60000})
EX
    iex -S mix <shell >shown 2>&1
    has "Copies what the recorder holds now" shown
    has " call 'Elixir.Enum':sort([2,1])" shown
    has " return_from 'Elixir.Enum':sort/1 value=[1,2]" shown
    lacks rebar out
    # The documented location of the command.
    _build/dev/lib/kymo/priv/bin/kymo --version
}

mix_git_dependency() {
    git_repository kymo
    mix_sample "git: \"file://$PWD/kymo\", branch: \"main\""
}

# Unpacks the hex package with rebar3's own code, which checks its checksums; then uses it as a
# dependency by path, with rebar3 and mix.
hex_package() {
    git_repository kymo
    make -s -C kymo hex </dev/null >out 2>&1 || { cat out; exit 1; }
    cp kymo/build/package/kymo-*.tar first.tar
    (cd kymo/build/package && sha256sum -c ./*.sha256)
    make -s -C kymo hex </dev/null >out 2>&1
    cmp first.tar kymo/build/package/kymo-*.tar
    mkdir -p sample/_checkouts/kymo
    erl -noshell -noinput -eval '
        {ok, Sections} = escript:extract(os:find_executable("rebar3"), []),
        {ok, Files} = zip:unzip(proplists:get_value(archive, Sections), [memory]),
        [{module, _} = code:load_binary(list_to_atom(filename:basename(F, ".beam")), F, B)
         || {F, B} <- Files, string:find(F, "/r3_") =/= nomatch, filename:extension(F) =:= ".beam"],
        {ok, Tar} = file:read_file("first.tar"),
        {ok, #{metadata := #{<<"name">> := <<"kymo">>, <<"licenses">> := [_], <<"files">> := Named}}} =
            r3_hex_tarball:unpack(Tar, "sample/_checkouts/kymo"),
        [true = filelib:is_regular(filename:join("sample/_checkouts/kymo", F)) || F <- Named],
        halt().' </dev/null
    # Files for tests are not included.
    [ ! -e sample/_checkouts/kymo/c_src/test ]
    rm -rf kymo
    sample sample
    echo '{deps, [kymo]}.' >sample/rebar.config
    (
        cd sample
        rebar3 compile
        start_sample _build/default/lib/*/ebin _build/default/checkouts/*/ebin >out
        has "sample works in" out
    )
    mv sample/_checkouts/kymo kymo
    rm -rf sample
    mix_sample 'path: "../kymo"'
}

# The words that each shell offers as the next one, with the completion installed in $share.
bash_offers() {
    bash -c '. "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _kymo; echo "${COMPREPLY[@]}"' \
        "$share/bash-completion/completions/kymo" "$@"
}
zsh_offers() {
    # shellcheck disable=SC2016 # for zsh
    zsh -f -c 'completion=$1; shift; words=("$@"); CURRENT=$#; PREFIX=$words[-1]
        compadd() { shift; print -r -- ${(o)${(M)@:#$PREFIX*}}; }
        _files() { print; }
        source $completion' zsh "$share/zsh/site-functions/_kymo" "$@"
}
fish_offers() {
    local line=$*
    fish --no-config -c "source '$share/fish/vendor_completions.d/kymo.fish'; complete -C '$line'" | tr '\n' ' ' | sed 's/ $//'
}

completions() {
    local shell share=$1/share
    PATH=$1/bin:$PATH
    for shell in bash zsh fish; do
        echo "$shell"
        same "watch why" "$("${shell}_offers" kymo w)"
        same "watch why" "$("${shell}_offers" kymo help w)"
        same "speedscope" "$("${shell}_offers" kymo export s)"
        same "--sort --strict" "$("${shell}_offers" kymo stats --s)"
        # File names are completed by the shell itself.
        same "" "$("${shell}_offers" kymo info nothing-of-this-name)"
    done
}

make_install() {
    git_repository kymo
    make -s -C kymo install DESTDIR="$PWD/root" PREFIX=/opt/kymo </dev/null
    root/opt/kymo/bin/kymo --help >/dev/null
    [ -s root/opt/kymo/share/man/man1/kymo.1 ]
    ERL_LIBS=$PWD/root/opt/kymo/lib erl -noshell -noinput -eval '
        {ok, _} = application:ensure_all_started(kymo), ok = erl_msg_tracer:load(),
        {ok, Mods} = application:get_key(kymo, modules),
        [] = [M || M <- Mods, code:ensure_loaded(M) =/= {module, M}], halt().' </dev/null
    # Both shells show its documentation.
    ERL_LIBS=$PWD/root/opt/kymo/lib erl -noshell -noinput -eval 'c:h(kymo, snapshot, 2), halt().' </dev/null >out
    has "Copies what the recorder holds now" out
    echo 'h :kymo.snapshot' | ERL_LIBS=$PWD/root/opt/kymo/lib iex >out 2>&1
    has "Copies what the recorder holds now" out
    completions "$PWD/root/opt/kymo"
    # `make clean` removes everything, also what rebar3 has built.
    (cd kymo && rebar3 compile >/dev/null)
    [ -n "$(git -C kymo status --porcelain --ignored)" ]
    make -s -C kymo clean
    same "" "$(git -C kymo status --porcelain --ignored)"
}

# Works in another folder, and does not contain paths of the build.
tarball() {
    git_repository kymo
    make -s -C kymo tarball </dev/null >out 2>&1 || { cat out; exit 1; }
    cd kymo/build/package
    sha256sum -c ./*.sha256
    mkdir ../../../moved
    tar -C ../../../moved -xf kymo-*.tar.gz
    cd ../../..
    mv moved/kymo-* away
    rm -rf kymo
    away/bin/kymo --version
    ! ldd away/bin/kymo >ldd.out 2>&1 || fail "bin/kymo needs shared libraries"
    [ -s away/share/man/man1/kymo.1 ] && [ -s away/doc/guide.md ] && [ -s away/LICENSE ]
    sample sample
    mkdir ebin
    erlc -o ebin sample/src/sample.erl
    cp sample/src/sample.app.src ebin/sample.app
    ERL_LIBS=$PWD/away/lib start_sample ebin >out
    has "sample works in $PWD/away/lib/kymo-" out
    "$PWD/away/bin/kymo" sql recording "select count(*) from events where event = 'call'" >rows
    has 1 rows
    refuses out away/bin/kymo export otlp recording --endpoint http://127.0.0.1:9
    has "write a file with -o" out
}

debian_package() {
    # It is compared with a second one, which must be compiled, too.
    local -x CCACHE_DISABLE=1
    git_repository kymo
    make -s -C kymo deb </dev/null >out 2>&1 || { cat out; exit 1; }
    # The project has no mail address; whoever publishes the package sets one.
    lintian --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
        --fail-on warning,error kymo/build/package/*.deb
    dpkg-deb -x kymo/build/package/*.deb root
    same /usr/bin/kymo "$(cd root && find . -name kymo -path '*/bin/*' -type l | cut -c2-)"
    root/usr/bin/kymo --version
    sample sample
    mkdir ebin
    erlc -o ebin sample/src/sample.erl
    cp sample/src/sample.app.src ebin/sample.app
    ERL_LIBS=$PWD/root/usr/lib/erlang/lib start_sample ebin >out
    has "sample works in $PWD/root/usr/lib/erlang/lib/kymo-" out
    # The package is reproducible.
    mv kymo/build/package/*.deb first.deb
    make -s -C kymo deb </dev/null >out 2>&1 || { cat out; exit 1; }
    cmp first.deb kymo/build/package/*.deb
}

# Installs the package that is built here in a new Debian 13, with that release's Erlang.
debian_13() {
    # shellcheck source=scripts/apt-lib.sh
    . "$TOP/scripts/apt-lib.sh"
    local mirror
    unset http_proxy https_proxy
    mirror=$(apt_mirrors | head -n 1)
    [ -n "$mirror" ] || { echo "apt here knows no Debian mirror"; exit 77; }
    git_repository kymo
    make -s -C kymo deb </dev/null >out 2>&1 || { cat out; exit 1; }
    mv kymo/build/package/kymo_*.deb kymo.deb
    sample sample
    mkdir ebin
    erlc -o ebin sample/src/sample.erl
    cp sample/src/sample.app.src ebin/sample.app
    cat >check <<'SH'
set -e
apt-get install -q -y --no-install-recommends /tmp/kymo.deb </dev/null
cd /tmp
kymo --version
SAMPLE_OUT=/tmp erl -noshell -noinput -pa ebin -eval '
    {ok, _} = application:ensure_all_started(sample), sample:check(),
    io:format("on OTP ~s~n", [erlang:system_info(otp_release)]), halt().'
SH
    # shellcheck disable=SC2016 # for the shell of the hook
    mmdebstrap --variant=apt --customize-hook='copy-in kymo.deb ebin check /tmp' --customize-hook='
            chroot "$1" env DEBIAN_FRONTEND=noninteractive sh /tmp/check >checked 2>&1' \
        trixie /dev/null "$mirror" >log 2>&1 || {
        tail -n 20 log
        [ -e checked ] || { echo "a Debian 13 could not be had from $mirror"; exit 77; }
        tail -n 20 checked
        exit 1
    }
    has "sample works in /usr/lib/erlang/lib/kymo-" checked
    has "on OTP 27" checked
}

# A machine with almost nothing installed: only these commands are found.
bare_path() {
    mkdir bare
    local c
    for c in bash sh env cat tr sed grep sort dirname mkdir id tail printf "$@"; do
        ln -s "$(command -v "$c")" "bare/$c"
    done
}

nothing_missing_nothing_said() {
    printf '#!/bin/sh\necho called >&2\nexit 1\n' >apt-get
    chmod +x apt-get
    PATH=$PWD:$PATH "$TOP/scripts/bootstrap" build >out 2>&1
    same "" "$(cat out)"
}

without_root_the_packages_are_named() {
    bare_path apt-get
    # Neither root nor sudo, whichever user runs this.
    rm bare/id
    printf '#!/bin/sh\necho 1000\n' >bare/id
    chmod +x bare/id
    refuses out env -i HOME="$HOME" PATH="$PWD/bare" bash "$TOP/scripts/bootstrap" build demo
    has "apt-get install --no-install-recommends" out
    for p in erlang-base erlang-dev erlang-inets gcc libc6-dev libsqlite3-dev make zlib1g-dev; do has " $p" out; done
    # First without lists of packages, as on a new machine, then with them.
    has "    apt-get update && apt-get install" out
    printf '#!/bin/sh\nexit 0\n' >bare/apt-cache
    chmod +x bare/apt-cache
    refuses out env -i HOME="$HOME" PATH="$PWD/bare" bash "$TOP/scripts/bootstrap" build demo
    has "    apt-get install" out
}

without_apt_the_packages_are_named() {
    bare_path
    refuses out env -i HOME="$HOME" PATH="$PWD/bare" bash "$TOP/scripts/bootstrap" otp
    has "no apt-get" out
    for p in g++ perl xz-utils libncurses-dev libssl-dev; do has " $p" out; done
}

# As root, apt runs without a terminal, after an update if it does not know the packages.
as_root_apt_installs() {
    bare_path
    rm bare/id
    printf '#!/bin/sh\necho 0\n' >bare/id
    printf '#!/bin/sh\nexit 100\n' >bare/apt-cache
    # shellcheck disable=SC2016 # for the script that is written
    printf '#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >>%s/calls\n' "$PWD" >bare/apt-get
    chmod +x bare/id bare/apt-cache bare/apt-get
    refuses out env -i HOME="$HOME" PATH="$PWD/bare" bash "$TOP/scripts/bootstrap" build
    # There are no lists of packages, so an update comes first.
    has "noninteractive" calls
    same " update" "$(sed -n '1s/.*\( update\)$/\1/p' calls)"
    has "install --no-install-recommends erlang-base" calls
    # This apt installs nothing, which is detected.
    has "installed, but not found" out
}

cases=(rebar3_alone git_dependency_and_release mix_git_dependency hex_package make_install tarball debian_package
    debian_13 nothing_missing_nothing_said without_root_the_packages_are_named without_apt_the_packages_are_named
    as_root_apt_installs)
[ $# = 0 ] || cases=("$@")
for case in "${cases[@]}"; do
    run_case "$case"
done
[ "$failures" = 0 ]
