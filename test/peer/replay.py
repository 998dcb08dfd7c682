#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal replay against a real peald: 300 requests of a generated trace over a DRAM tier that holds
a fifth of it, and one corruption planted.

Asserts what the README promises: no wrong byte, a hit rate like that of exact LRU of the same
size, evictions that add up, the corruption caught. Then over DRAM and SSD, with the daemon killed
half way: what the tiers served adds up, and most of it is there again.

usage: replay.py PEALD PEAL
"""

import json
import os
import subprocess
import sys
import tempfile

import peer

REQUESTS = 300
VALUE_BYTES = 16384
DRAM = '12M'
SSD = '96M'
POINTS = 2.0


def replay(peal, d, *args):
    path = os.path.join(d.folder, 'figures.json')
    done = subprocess.run(
        [peal, '--uri', d.uri, 'replay', '--seed', '3',
         '--requests', str(REQUESTS), '--scale', str(REQUESTS / 12031),
         '--value-bytes', str(VALUE_BYTES), '--json-file', path, *args],
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


HALF = """
kill -KILL {pid}
while grep -q '^State:[[:space:]]*[^ZX[:space:]]' /proc/{pid}/status 2>/dev/null; do
	sleep 0.02
done
{peald} --dir {sock} --tiers '{tiers}' --value-max 1M >/dev/null 2>{sock}/log &
echo $! >{sock}/pid
until grep -q 'listening on' {sock}/log; do
	kill -0 $(cat {sock}/pid) || exit 1
	sleep 0.02
done
"""


def check_tiers(got):
    assert got['wrong_bytes'] == 0 and got['refused_puts'] == 0, got
    dram, ssd = got['tiers']
    assert (dram['name'], ssd['name']) == ('dram', 'ssd')
    # One denominator; and each read was a hit of one tier.
    assert dram['hit_blocks'] + ssd['hit_blocks'] == got['hit_blocks']
    assert abs(dram['hit_percent'] + ssd['hit_percent'] - got['hit_percent']) < 1e-6
    assert dram['hits_told'] > 0 and ssd['hits_told'] > 0
    # The tier holds what half of the trace has: nothing is missed for want of room.
    assert got['infinite_percent'] - got['hit_percent'] < 6, got['hit_percent']
    half = got['half']
    # What memory had not given up yet is lost, and nothing else.
    lost = half['blocks_before'] - half['blocks_after']
    assert half['after_requests'] == REQUESTS // 2 and half['blocks_after'] > 0, half
    assert 0 <= lost * VALUE_BYTES <= 12 << 20, half
    assert half['first_hit_s'] >= half['down_s'] > 0, half
    assert 1 <= got['write_amplification'] < 1.5, got['write_amplification']


def tiers(peald, peal):
    """The second daemon isn't ours to wait for; it is stopped by name."""
    with tempfile.TemporaryDirectory(prefix='peal-replay.', dir='.') as folder, \
            tempfile.TemporaryDirectory(prefix='peal-replay.') as sock:
        spec = f'dram {DRAM} | ssd {os.path.abspath(folder)} {SSD}'
        d = peer.Daemon(peald, sock, '--tiers', spec, '--value-max', '1M')
        script = os.path.join(sock, 'half')
        with open(script, 'w', encoding='ascii') as f:
            f.write(HALF.format(pid=d.pid, peald=peald, sock=sock, tiers=spec))
        try:
            got, text = replay(peal, d, '--half-way', f'sh {script}')
        finally:
            d.process.kill()
            d.process.wait()
            if os.path.exists(f'{sock}/pid'):
                with open(f'{sock}/pid', encoding='ascii') as f:
                    pid = int(f.read())
                wait = f'kill {pid}; while kill -0 {pid}; do sleep 0.05; done'
                subprocess.run(['sh', '-c', wait], check=False, stderr=subprocess.DEVNULL,
                               timeout=60)
        check_tiers(got)
        assert 'from the SSD' in text and 'killed:' in text


def main():
    peald, peal = sys.argv[1:]
    with peer.daemon(peald, '--dram', DRAM) as d:
        check(*replay(peal, d, '--plant', str(d.pid)))
    assert 'alert 1' in d.log, "no alert in the daemon's log"
    tiers(peald, peal)
    return 0


if __name__ == '__main__':
    sys.exit(main())
