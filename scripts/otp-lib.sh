# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by otp-fetch, otp-build and otp-patch: the base, the series, and how a
# source tree is made of them.
#
#   BASE         which series of erts_patches: 27.3.4, the reference, or 29.1
#   KYMO_SERIES  the folder of a series, wherever it is; counts more than BASE
#   OTP_SRC      use this tarball or git checkout of OTP instead of the base

reference=27.3.4
# shellcheck disable=SC2034 # for those who source this
if [ -n "${KYMO_SERIES-}" ]; then all_series=("$KYMO_SERIES"); else all_series=("$TOP"/erts_patches/otp-*); fi
SERIES=${KYMO_SERIES:-$TOP/erts_patches/otp-${BASE:-$reference}}
[ -f "$SERIES/BASE" ] || die "there is no series ${SERIES##*/}: BASE is one of$(printf ' %s' "$TOP"/erts_patches/otp-* | sed "s,$TOP/erts_patches/otp-,,g")"

# use_series FOLDER: from here on, also in scripts that are called.
use_series() { SERIES=$1 && export KYMO_SERIES=$1; }

export CACHE
CACHE=$(cache_dir)
case $CACHE in *[[:space:]]*) die "OTP can't be built in a path with spaces: $CACHE (set KYMO_CACHE)" ;; esac
{ mkdir -p "$CACHE" && CACHE=$(cd "$CACHE" && pwd -P); } || die "no place for the cache: set KYMO_CACHE"
# The user's git settings must not change what is applied or exported.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null

base() {
    local value
    value=$(awk -v key="$1" '$1 == key { print $2 }' "$SERIES/BASE")
    [ -n "$value" ] || die "$SERIES/BASE does not say: $1"
    printf '%s' "$value"
}

sum_of() { sha256sum "$1" | cut -d' ' -f1; }

# The patches in order, one path on each line; nothing for an empty series.
patches() { find "$SERIES" -maxdepth 1 -name '[0-9]*.patch' 2>/dev/null | LC_ALL=C sort; }

# Paths of the overlay's files, relative to it.
overlay_files() {
    [ ! -d "$SERIES/overlay" ] || (cd "$SERIES/overlay" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort)
}

# A name for exactly this source: fetches the base if need be. Prints "kind id path".
source_id() {
    if [ -z "${OTP_SRC-}" ]; then
        local file
        file=$("$TOP/scripts/otp-fetch") || return 1
        printf 'tarball %s %s' "$(base sha256)" "$file"
    elif [ -d "$OTP_SRC" ]; then
        git -C "$OTP_SRC" rev-parse --verify -q HEAD >/dev/null ||
            die "OTP_SRC=$OTP_SRC is neither a tarball nor a git checkout"
        git -C "$OTP_SRC" diff --quiet HEAD -- ||
            die "OTP_SRC=$OTP_SRC has changes that are not committed: commit or remove them"
        printf 'git %s %s' "$(git -C "$OTP_SRC" rev-parse HEAD)" "$(cd "$OTP_SRC" && pwd -P)"
    elif [ -f "$OTP_SRC" ]; then
        printf 'tarball %s %s' "$(sum_of "$OTP_SRC")" "$(realpath "$OTP_SRC")"
    else
        die "OTP_SRC=$OTP_SRC: there is no such file or folder"
    fi
}

# unpack KIND PATH DIR: the source tree, checked to be one that the series is for.
unpack() {
    mkdir -p "$3"
    case $1 in
    tarball) tar -xf "$2" -C "$3" --strip-components=1 --no-same-owner || return 1 ;;
    git) git -C "$2" archive HEAD | tar -x -C "$3" || return 1 ;;
    esac
    local version release
    version=$(cat "$3/OTP_VERSION" 2>/dev/null) || { warn "$2 holds no source of OTP"; return 1; }
    release=$(base version | cut -d. -f1-2)
    case $version in
    "$release" | "$release".*) ;;
    *) warn "$2 is OTP $version; the series is for $release"; return 1 ;;
    esac
}

# apply_series DIR: overlay and patches, strictly; says which hunk does not fit.
apply_series() {
    local patch file out
    while read -r file; do
        [ -n "$file" ] || continue
        if [ -e "$1/$file" ]; then
            warn "overlay file $file exists in the base: make it a patch"
            return 1
        fi
        mkdir -p "$1/$(dirname "$file")" && cp "$SERIES/overlay/$file" "$1/$file" || return 1
    done < <(overlay_files)
    while read -r patch; do
        [ -n "$patch" ] || continue
        say "applying ${patch##*/}"
        # The ceiling: a cache inside some other git checkout is still no part of it.
        if ! out=$(cd "$1" && GIT_CEILING_DIRECTORIES=$(dirname "$1") git apply --whitespace=nowarn "$patch" 2>&1); then
            (cd "$1" && GIT_CEILING_DIRECTORIES=$(dirname "$1") git apply --whitespace=nowarn --reject "$patch" 2>&1) |
                awk '/^Checking patch|^Applying patch/ { file = $3 } /^Rejected hunk/ { print file ": hunk " $3 }' |
                sed "s|^|${patch##*/} does not apply to |; s|\.\.\.:|:|; s|\.\$||" >&2
            warn "$out"
            return 1
        fi
    done < <(patches)
}
