# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# How OTP is built: sourced by otp-build, and part of the key under which a build
# is cached, so that a change here builds anew. All functions run in ERL_TOP.

# Applications that neither the series nor its tests need.
OTP_CONFIGURE=(--without-wx --without-odbc --without-javac --without-megaco --without-diameter
    --without-snmp --without-ssh --without-observer --without-debugger --without-et --without-eldap
    --without-ftp --without-tftp --without-jinterface --without-reltool)

# The packages of Debian (without "erlang-") with the applications that are left, compiled, and all sources.
# shellcheck disable=SC2034 # otp-compiled's
OTP_COMPILED=(asn1 base common-test crypto dev dialyzer edoc eunit inets mnesia os-mon parsetools public-key
    runtime-tools src ssl syntax-tools tools xmerl)

# Lines that the build prints for each thing it makes, to show how far it is.
# shellcheck disable=SC2034 # otp-build's
OTP_STEPS=1327
# shellcheck disable=SC2034 # the same, if Debian's compiled applications are there
OTP_STEPS_TAKEN=820

# Debian's tarball leaves out two files that its package takes from others.
otp_prepare() {
    local dir=lib/common_test/priv name from
    [ -d "$dir" ] || return 0
    for name in jquery-latest.js:jquery/jquery.js \
        jquery.tablesorter.min.js:jquery-tablesorter/jquery.tablesorter.min.js; do
        from=/usr/share/javascript/${name#*:}
        [ -e "$dir/${name%%:*}" ] || cp "$from" "$dir/${name%%:*}" || return 1
    done
}

otp_configure() { ./configure --prefix=/usr/local "${OTP_CONFIGURE[@]}"; }

otp_make() { make -j"$(cpus)"; }

# otp_make_emulator TYPE FLAVOR: one more emulator beside the first.
otp_make_emulator() { make -j"$(cpus)" -C erts/emulator "$1" FLAVOR="$2"; }

# Where a tool looks that asks a runtime for its root: the headers of NIFs.
otp_headers() {
    mkdir -p usr/include
    cp erts/emulator/beam/erl_nif.h erts/emulator/beam/erl_nif_api_funcs.h erts/emulator/beam/erl_driver.h \
        erts/emulator/beam/erl_drv_nif.h erts/include/erl_fixed_size_int_types.h \
        erts/include/*-*/erl_int_sizes_config.h usr/include/
}

# The prefix is given again, as the tree was not configured for it.
otp_install() { make install prefix="$1" exec_prefix="$1" bindir="$1/bin" libdir="$1/lib"; }
