# SPDX-License-Identifier: Apache-2.0
#
# Completion of kymo(1) for fish. Commands and options are taken from the output of `kymo help`
# of the same program, so no list has to be maintained here.

function __kymo_commands
    kymo help 2>/dev/null | sed -n 's/^  kymo \([a-z]*\) .*/\1/p' | sort -u
end

function __kymo_formats
    kymo help 2>/dev/null | sed -n 's/^  kymo export \([a-z]*\) .*/\1/p'
end

function __kymo_options
    set -l typed (commandline -opc)
    kymo help $typed[2] 2>/dev/null | string match -ra -- '(?<=[ ,])--?[a-z][a-z-]*(?![a-z])'
end

function __kymo_typed
    test (count (commandline -opc)) -eq $argv[1]
end

complete -c kymo -n '__kymo_typed 1' -f -a '(__kymo_commands)'
complete -c kymo -n '__kymo_typed 2; and __fish_seen_subcommand_from help' -f -a '(__kymo_commands)'
complete -c kymo -n '__kymo_typed 2; and __fish_seen_subcommand_from export' -f -a '(__kymo_formats)'
complete -c kymo -n 'not __kymo_typed 1; and string match -q -- "-*" (commandline -ct)' -f -a '(__kymo_options)'
