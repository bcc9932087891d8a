# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced, after lib.sh, by the scripts that download from Debian: runs apt with its own lists,
# state and cache, so that it neither needs nor changes the machine's configuration. apt
# verifies signatures against Debian's keyring. Needs no root.

apt_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The Debian mirrors that apt knows on this machine (or KYMO_MIRROR), without the security
# archive, which has no sources of other suites.
apt_mirrors() {
    if [ -n "${KYMO_MIRROR-}" ]; then
        echo "$KYMO_MIRROR"
    else
        {
            # The first command lists only what has been fetched before, the second everything.
            # shellcheck disable=SC2016 # the format is apt's
            apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null
            apt-get --print-uris update 2>/dev/null | sed -n "s,^'\(.*/\)dists/\([^/]*\)/InRelease'.*,\1 \2,p"
        } | awk '$2 ~ /^(oldstable|stable|testing|unstable|sid|bookworm|trixie|forky)$/ && !seen[$1]++ { print $1 }'
    fi
}

# apt_begin STATE MIRROR SUITE TYPE: creates an empty state with one source, deb or deb-src.
# Afterwards apt_own runs apt-get with it.
apt_begin() {
    local state=$1
    rm -rf "$state"
    mkdir -p "$state/sources" "$state/state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    cat >"$state/sources/base.sources" <<LIST
Types: $4
URIs: $2
Suites: $3
Components: main
Signed-By: $apt_keyring
LIST
    apt_options=(-q -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$state/sources"
        -o "Dir::State=$state/state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
        -o "APT::Sandbox::User=" -o "Acquire::Retries=3" -o "Acquire::Languages=none")
}

apt_own() { apt-get "${apt_options[@]}" "$@"; }

# apt_fetch STATE SUITE TYPE LOG WHAT COMMAND...: runs COMMAND, which uses apt_own, with the lists
# of one mirror after another until it succeeds; what it writes goes to LOG. Dies if no mirror
# helps. COMMAND runs in a subshell, where errexit has no effect.
apt_fetch() {
    local state=$1 suite=$2 type=$3 log=$4 what=$5 mirror tried=
    shift 5
    [ -f "$apt_keyring" ] || die "Debian's archive keyring is missing: install debian-archive-keyring"
    : >"$log"
    warn "Fetching $what with apt (log: $log)"
    for mirror in $(apt_mirrors); do
        tried="$tried $mirror"
        apt_begin "$state" "$mirror" "$suite" "$type"
        if (apt_own update -o APT::Update::Error-Mode=any && "$@") </dev/null >>"$log" 2>&1; then
            rm -rf "$state"
            return
        fi
        warn "  not from $mirror: $(grep -E '^[EW]:' "$log" | tail -n 1)"
    done
    [ -n "$tried" ] || die "apt here knows no Debian mirror: set KYMO_MIRROR"
    die "could not fetch $what from:$tried (log: $log)"
}
