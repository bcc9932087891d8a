#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# Reads a CTF trace with babeltrace2's library and prints its contents as Erlang terms,
# for file:consult/1.
#
#   ctf_read.py FOLDER
#
#   {events, [{Name, Count}]}.      without the dictionary and the recorder's notes
#   {functions, [{Name, Count}]}.   calls, by the name in the dictionary
#   {processes, [Name]}.            processes of the dictionary
#   {threads, [{Kind, Number, Count}]}.
#   {lost, Events, Packets}.        reported as discarded by babeltrace2
#   {time, First, Last}.            of the events, ns since the Unix epoch
#   {sorted, Boolean}.
import collections
import sys

import bt2


def binary(text):
    return '<<"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"/utf8>>'


def counts(counter):
    return '[' + ', '.join('{%s, %d}' % (binary(k), n) for k, n in sorted(counter.items())) + ']'


def main(folder):
    events = collections.Counter()
    calls = collections.Counter()
    threads = collections.Counter()
    names = {}
    processes = []
    lost_events = lost_packets = 0
    first = last = None
    is_sorted = True
    for msg in bt2.TraceCollectionMessageIterator(folder):
        if type(msg) is bt2._DiscardedEventsMessageConst:
            lost_events += msg.count
        elif type(msg) is bt2._DiscardedPacketsMessageConst:
            lost_packets += msg.count
        elif type(msg) is bt2._EventMessageConst:
            event = msg.event
            name = event.name
            if name == 'kymo_mfa':
                names[int(event['id'])] = str(event['name'])
            elif name == 'kymo_process':
                processes.append(str(event['name']))
            elif not name.startswith('kymo_'):
                events[name] += 1
                packet = event.packet.context_field
                threads[(list(packet['thread_kind'].labels)[0], int(packet['thread_number']))] += 1
                if name == 'call':
                    calls[int(event['mfa'])] += 1
                ns = msg.default_clock_snapshot.ns_from_origin
                first = ns if first is None else first
                is_sorted = is_sorted and (last is None or ns >= last)
                last = ns
    functions = collections.Counter()
    for mfa, n in calls.items():
        functions[names.get(mfa, '?')] += n
    print('{events, %s}.' % counts(events))
    print('{functions, %s}.' % counts(functions))
    print('{processes, [%s]}.' % ', '.join(binary(p) for p in sorted(processes)))
    print('{threads, [%s]}.' % ', '.join('{%s, %d, %d}' % (binary(k), no, n) for (k, no), n in sorted(threads.items())))
    print('{lost, %d, %d}.' % (lost_events, lost_packets))
    print('{time, %d, %d}.' % (first or 0, last or 0))
    print('{sorted, %s}.' % str(is_sorted).lower())


main(sys.argv[1])
