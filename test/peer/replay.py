#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal replay against a real peald: 300 requests of a generated trace over a DRAM tier that holds
a fifth of it, and one corruption planted.

Asserts what the README promises: no wrong byte, a hit rate like that of exact LRU of the same
size, evictions that add up, the corruption caught.

usage: replay.py PEALD PEAL
"""

import json
import os
import subprocess
import sys

import peer

REQUESTS = 300
VALUE_BYTES = 16384
DRAM = '12M'
POINTS = 2.0


def replay(peal, d):
    path = os.path.join(d.folder, 'figures.json')
    done = subprocess.run(
        [peal, '--uri', d.uri, 'replay', '--seed', '3',
         '--requests', str(REQUESTS), '--scale', str(REQUESTS / 12031),
         '--value-bytes', str(VALUE_BYTES), '--json-file', path, '--plant', str(d.pid)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    print(done.stdout)
    assert done.returncode == 0, f'peal replay: status {done.returncode}, expected 0'
    with open(path, encoding='ascii') as f:
        return json.load(f), done.stdout


def check(got, text):
    assert got['requests'] == REQUESTS, got['requests']
    assert got['wrong_bytes'] == 0, got['wrong_bytes']
    assert got['bytes_checked'] == got['get']['bytes'] > 0
    assert got['get']['count'] >= got['hit_blocks'] > 0
    assert abs(got['hit_percent'] - got['lru_percent']) <= POINTS, \
        f"hit rate {got['hit_percent']:.2f} %, exact LRU {got['lru_percent']:.2f} %"
    assert got['hit_percent'] < got['infinite_percent']
    assert got['refused_puts'] == 0, got['refused_puts']
    assert got['evictions'] == got['put']['count'] - got['resident_blocks'] > 0
    assert got['unique_blocks'] > 4 * got['resident_blocks']
    assert got['resident_blocks'] * VALUE_BYTES <= got['dram_bytes']
    # Whatever the size of things, most of the memory holds values.
    assert got['resident_blocks'] * VALUE_BYTES >= 0.75 * got['dram_bytes']
    plant = got['plant']
    assert plant['is_caught'] and plant['is_miss'] and plant['is_healed'], plant
    assert (plant['media_errors_before'], plant['media_errors_after']) == (0, 1), plant
    assert f"wrong bytes: 0 of {got['bytes_checked']:,}" in text


def main():
    peald, peal = sys.argv[1:]
    with peer.daemon(peald, '--dram', DRAM) as d:
        check(*replay(peal, d))
    assert 'alert 1' in d.log, "no alert in the daemon's log"
    return 0


if __name__ == '__main__':
    sys.exit(main())
