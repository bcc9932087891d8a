#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the Debian package of the patched runtime (BASE=), which scripts/test has built: it shares
# no path with Debian's Erlang, and its runtime starts and loads kymo.
. "$(dirname "$0")/check.sh"
unset MAKEFLAGS MAKELEVEL ERL ERLC ERL_LIBS ERL_FLAGS OUT PRIV BUILD BUILD_ROOT ERTS_INCLUDE_DIR DESTDIR PREFIX

release=$("$TOP/scripts/otp-build" print version)
release=${release%%.*}
name=kymo-erlang-$release

# Removes the packages of an earlier run.
erts_deb() {
    rm -f "$TOP"/build/package/"$name"_*.deb
    make -s -C "$TOP" all erts-deb </dev/null >out 2>&1 || { tail -n 20 out; exit 1; }
    cp "$TOP"/build/package/"$name"_*.deb "$WORK/package.deb"
    # The project has no mail address; whoever publishes the package sets one.
    lintian --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
        --fail-on warning,error "$WORK/package.deb"
}

beside_debian() {
    dpkg-deb --fsys-tarfile "$WORK/package.deb" | tar -t | sed 's,^\./,/,' | grep -v '/$' | sort >paths
    [ -s paths ]
    refuses others grep -vE "^/usr/(lib/$name|share/doc/$name|share/lintian/overrides/$name)(/|\$)" paths
    local installed
    installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 'erlang-*' | sed -n 's/^ii *//p')
    [ -n "$installed" ] || { echo "no package of Debian's Erlang is installed here"; exit 77; }
    # shellcheck disable=SC2086 # a list of words
    dpkg -L $installed | sort -u >debian
    same "" "$(comm -12 paths debian)"
}

starts_and_loads_kymo() {
    dpkg-deb -x "$WORK/package.deb" root
    same ../lib/erlang/bin/erl "$(readlink root/usr/lib/"$name"/bin/erl)"
    # Through this link, erl finds its files without being installed.
    # shellcheck disable=SC2016 # for Erlang
    root/usr/lib/"$name"/lib/erlang/bin/erl -noshell -noinput -pa "$TOP/ebin" -eval '
        io:format("OTP ~s, series ~tp~n", [erlang:system_info(otp_release), erlang:system_info(kymo_series)]),
        {ok, _, _} = kymo:record("recording", #{functions => ["lists:reverse/1"]}, fun() -> lists:reverse([1, 2]) end),
        {ok, _} = application:ensure_all_started(crypto),
        io:format("in ~ts~n", [code:root_dir()]), halt().' </dev/null >out 2>&1 || { cat out; exit 1; }
    has "OTP $release, series " out
    has "in $PWD/root/usr/lib/$name/lib/erlang" out
    "$TOP/priv/bin/kymo" print recording >printed
    has "call lists:reverse/1" printed
    # No script refers to the build folder.
    refuses named grep -rIlF "$(dirname "$("$TOP/scripts/otp-build" print tree)")" \
        root/usr/lib/"$name"/bin/ root/usr/lib/"$name"/lib/erlang/{bin,releases,erts-*/bin}
    same "" "$(cat named)"
}

for case in erts_deb beside_debian starts_and_loads_kymo; do
    run_case "$case"
done
[ "$failures" = 0 ]
