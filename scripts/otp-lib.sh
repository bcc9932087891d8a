# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by otp-fetch, otp-build and otp-patch: the base, the series, and functions that make a
# source tree from them.
#
#   BASE         which series of erts_patches: 27.3.4, the reference, or 29.1
#   KYMO_SERIES  the folder of a series in any place; takes precedence over BASE
#   OTP_SRC      use this tarball or git checkout of OTP instead of the base

reference=27.3.4
# shellcheck disable=SC2034 # for those who source this
if [ -n "${KYMO_SERIES-}" ]; then all_series=("$KYMO_SERIES"); else all_series=("$TOP"/erts_patches/otp-*); fi
SERIES=${KYMO_SERIES:-$TOP/erts_patches/otp-${BASE:-$reference}}
[ -f "$SERIES/BASE" ] || die "there is no series ${SERIES##*/}: BASE is one of$(printf ' %s' "$TOP"/erts_patches/otp-* | sed "s,$TOP/erts_patches/otp-,,g")"

# use_series FOLDER: selects the series, also for scripts that are called from here on.
use_series() { SERIES=$1 && export KYMO_SERIES=$1; }

export CACHE
CACHE=$(cache_dir)
case $CACHE in *[[:space:]]*) die "OTP can't be built in a path with spaces: $CACHE (set KYMO_CACHE)" ;; esac
{ mkdir -p "$CACHE" && CACHE=$(cd "$CACHE" && pwd -P); } || die "no place for the cache: set KYMO_CACHE"
# The user's git settings must not affect what is applied or exported.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null

base() {
    local value
    value=$(awk -v key="$1" '$1 == key { print $2 }' "$SERIES/BASE")
    [ -n "$value" ] || die "$SERIES/BASE does not say: $1"
    printf '%s' "$value"
}

sum_of() { sha256sum "$1" | cut -d' ' -f1; }

# The patches in order, one path per line; prints nothing for an empty series.
patches() { find "$SERIES" -maxdepth 1 -name '[0-9]*.patch' 2>/dev/null | LC_ALL=C sort; }

# New files are in the overlay, unless BASE says "overlay none": then each patch adds the files
# that it needs, so that every commit can be built.
has_overlay() { ! grep -qE '^overlay[[:space:]]+none$' "$SERIES/BASE"; }

# The topics of a series that has them: "number of the first patch, file", in order. "First
# patch: SUBJECT" in each file names the patch with which the topic begins.
topics() {
    local file subject number from=0 all
    all=$(subjects)
    for file in "$SERIES"/topics/*.md; do
        [ -e "$file" ] || return 0
        subject=$(sed -n 's/^First patch: //p' "$file")
        number=$(SUBJECT=$subject awk 'substr($0, 6) == ENVIRON["SUBJECT"] { print $1; exit }' <<<"$all")
        [ -n "$number" ] || { warn "no patch of ${SERIES##*/} is: $subject (${file##*/})"; return 1; }
        [ "$((10#$number))" -gt "$from" ] || { warn "${file##*/} does not begin after the topic before it"; return 1; }
        from=$((10#$number))
        printf '%s %s\n' "$number" "$file"
    done
}

# The number and the subject of each patch.
subjects() {
    # shellcheck disable=SC2016 # for awk
    patches | xargs -r awk '
        FNR == 1 { n = FILENAME; sub(/.*\//, "", n); n = substr(n, 1, 4); in_subject = 0 }
        /^Subject: / && !in_subject { s = $0; sub(/^Subject: (\[PATCH\] )?/, "", s); in_subject = 1; next }
        in_subject == 1 && /^ / { s = s $0; next }
        in_subject == 1 { print n, s; in_subject = 2 }
    '
}

# The paths of the overlay's files, relative to the overlay.
overlay_files() {
    [ ! -d "$SERIES/overlay" ] || (cd "$SERIES/overlay" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort)
}

# source_id fetch|known: prints "kind id path" of the source; id identifies its exact contents. Fetches
# the base if necessary; with known it does not, and prints no path then.
source_id() {
    if [ -z "${OTP_SRC-}" ] && [ "$1" = known ]; then
        printf 'tarball %s' "$(base sha256)"
    elif [ -z "${OTP_SRC-}" ]; then
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

# unpack KIND PATH DIR: unpacks the source tree, and checks that the series applies to it.
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

# apply_series DIR: applies overlay and patches without fuzz; reports the hunk that does not
# apply.
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
        # The ceiling keeps git from using another checkout that contains the cache.
        if ! out=$(cd "$1" && GIT_CEILING_DIRECTORIES=$(dirname "$1") git apply --whitespace=nowarn "$patch" 2>&1); then
            (cd "$1" && GIT_CEILING_DIRECTORIES=$(dirname "$1") git apply --whitespace=nowarn --reject "$patch" 2>&1) |
                awk '/^Checking patch|^Applying patch/ { file = $3 } /^Rejected hunk/ { print file ": hunk " $3 }' |
                sed "s|^|${patch##*/} does not apply to |; s|\.\.\.:|:|; s|\.\$||" >&2
            warn "$out"
            return 1
        fi
    done < <(patches)
}

# Copies a finished tree and replaces every occurrence of its path by the new one. Modification
# times are kept with their fractions, so that make sees the same order.
copy_tree() {
    local from=$1 to=$2
    [ "${#from}" = "${#to}" ] || { warn "paths of different length: $from $to"; return 1; }
    cp -a --reflink=auto "$from/src" "$to/src" || return 1
    # Leftovers of test runs belong to the other tree.
    find "$to/src" -name make_test_dir -prune -exec rm -rf {} +
    rm -f "$to/src/lib/common_test/test_server/variables"
    FROM=$from TO=$to perl -MFile::Find -MTime::HiRes=lstat,utime -e '
        my ($from, $to) = @ENV{"FROM", "TO"};
        my $broken = join q{(?:"\\\\\n")?}, map quotemeta, split //, $from;
        find({ no_chdir => 1, wanted => sub {
            my @st = lstat $_;
            if (-l _) {
                my $l = readlink $_;
                if ($l =~ s/\Q$from\E/$to/g) { unlink $_; symlink $l, $_ or die "$_: $!" }
                return;
            }
            return unless -f _ && $st[7];
            open my $f, "<:raw", $_ or die "$_: $!";
            local $/;
            my $text = <$f>;
            close $f;
            my $n = $text =~ s/\Q$from\E/$to/g;
            # config.status breaks long strings at any position.
            $n += $text =~ s/$broken/my ($m, $i) = ($&, 0); $m =~ s{"\\\n"|.}{length $& > 1 ? $& : substr $to, $i++, 1}ges; $m/ge
                if m{\/config\.status$};
            return unless $n;
            open $f, ">:raw", $_ or die "$_: $!";
            print $f $text or die "$_: $!";
            close $f or die "$_: $!";
            utime $st[8], $st[9], $_;
        } }, "$to/src");'
}
