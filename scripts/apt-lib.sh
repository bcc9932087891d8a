# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced, after lib.sh, by the scripts that download from Debian: apt with lists,
# state and cache of its own, so that the machine's configuration is neither needed
# nor changed. apt checks the signatures against Debian's keyring. Needs no root.

apt_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Debian mirrors known to apt here (or KYMO_MIRROR), the security archive (which
# has no sources of other suites) left out.
apt_mirrors() {
    if [ -n "${KYMO_MIRROR-}" ]; then
        echo "$KYMO_MIRROR"
    else
        {
            # The first knows only what has been fetched once, the second all.
            # shellcheck disable=SC2016 # the format is apt's
            apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null
            apt-get --print-uris update 2>/dev/null | sed -n "s,^'\(.*/\)dists/\([^/]*\)/InRelease'.*,\1 \2,p"
        } | awk '$2 ~ /^(oldstable|stable|testing|unstable|sid|bookworm|trixie|forky)$/ && !seen[$1]++ { print $1 }'
    fi
}

# apt_begin STATE MIRROR SUITE TYPE: an empty state with one source, deb or deb-src.
# Afterwards apt_own is apt-get with it.
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
