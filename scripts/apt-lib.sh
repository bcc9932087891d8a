# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by otp-fetch and otp-debian: download from a Debian suite that is not the
# one of this machine, with lists and a state of apt's own. The mirror is the one
# this machine's apt uses (or KYMO_MIRROR); apt checks the signature against
# Debian's keyring. Needs no root and changes nothing of this machine's apt.

DEBIAN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Debian mirrors known to apt here, the security archive (which has no packages of
# other suites) left out.
debian_mirrors() {
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

# apt_begin STATE deb|deb-src MIRROR SUITE: an empty state in the folder STATE that
# knows one suite of one mirror. Sets apt_options, to be given to each apt command.
apt_begin() {
    rm -rf "$1"
    mkdir -p "$1/sources" "$1/state/lists/partial" "$1/cache/archives/partial"
    : >"$1/status"
    cat >"$1/sources/base.sources" <<LIST
Types: $2
URIs: $3
Suites: $4
Components: main
Signed-By: $DEBIAN_KEYRING
LIST
    # shellcheck disable=SC2034 # for the scripts that source this
    apt_options=(-q -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$1/sources"
        -o "Dir::State=$1/state" -o "Dir::State::status=$1/status" -o "Dir::Cache=$1/cache"
        -o "APT::Sandbox::User=" -o "Acquire::Retries=3" -o "Acquire::Languages=none")
}
