#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real peald whose SSD tier lies on two devices (here: folders): one is added, drained, missing,
and back; what an operator asks, and what is told of it.

usage: PEALD=... PEAL_CLI=... python3 -m pytest ssd_devices.py
"""

import glob
import os
import re
import shutil
import subprocess

import peer
import pytest

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']
NR = 60


class Node(peer.Node):
    """1 MiB of memory over an SSD tier of 64 MiB in each of the folders."""

    def __init__(self, top, names, *more, rw=False):
        self.top = top
        folders = ', '.join(f'{top}/{n} 64M' for n in names)
        config = f'{top}/peald.yaml'
        with open(config, 'w', encoding='utf-8') as f:
            f.write(f'namespaces:\n  - name: kv\n    tiers: dram 1M | ssd {folders}\n'
                    f'    immutable: {"no" if rw else "yes"}\n')
        os.makedirs(f'{top}/run', exist_ok=True)
        super().__init__(PEALD, f'{top}/run', '--config', config, *more)
        while self.tier()['health']['recovering']:
            pass  # the test's own time limit ends it

    def devices(self):
        return {os.path.basename(d['folder']): d for d in self.tier()['devices']}

    def fill(self, first, nr, what='a'):
        for i in range(first, first + nr):
            done = self.cli('put', f'key{i}', '-', input=value(i, what))
            assert done.returncode == 0, done.stderr
        assert self.rpc('ns.flush', 'ns=kv') is not None

    def there(self, first, nr, what='a'):
        """How many; each as it was put."""
        found = 0
        for i in range(first, first + nr):
            done = self.cli('get', f'key{i}')
            if done.returncode == 0:
                assert done.stdout == value(i, what), i
                found += 1
        return found


def value(i, what):
    return (f'{what}{i}-'.encode() * 16384)[:65536 + i]


@pytest.fixture(name='top')
def fixture_top(tmp_path):
    return str(tmp_path)


def test_added(top):
    d = Node(top, 'a')
    d.fill(0, NR)
    assert 'devices' not in d.tier()
    d.stop()
    d = Node(top, 'ab')
    try:
        assert d.there(0, NR) == NR
        assert d.devices()['b']['keys'] == 0
        d.fill(NR, NR)
        assert d.there(0, 2 * NR) == 2 * NR
        dev = d.devices()
        assert dev['b']['keys'] > NR // 6 and dev['a']['keys'] + dev['b']['keys'] == 2 * NR
        tier = d.tier()
        assert tier['name'] == 'ssd' and tier['keys'] == 2 * NR
        assert tier['hits'] == dev['a']['hits'] + d.devices()['b']['hits']
        text = d.get('/metrics')
        assert re.search(r'peal_tier_device_keys\{namespace="kv",nsid="1",tier="1-ssd",'
                         r'folder="[^"]*/b"\} [1-9]', text)
        assert d.get('/healthz') == 'ok\n'
        out = d.cli('stat').stdout.decode()
        assert f'{top}/a: ' in out and f'{top}/b: ' in out, out
    finally:
        d.stop()
    done = subprocess.run([PEAL, 'fsck', f'{top}/a', f'{top}/b'], capture_output=True, timeout=60,
                          check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'device 1 of 2' in done.stdout and 'device 2 of 2' in done.stdout, done.stdout


def drain(d, name):
    d.rpc('ssd.drain', 'ns=kv', f'folder={d.top}/{name}')
    while d.devices()[name]['state'] == 'draining':
        pass  # the test's own time limit ends it
    assert d.devices()[name]['state'] == 'drained'


@pytest.mark.parametrize('rw', [False, True])
def test_drained(top, rw):
    d = Node(top, 'ab', '--reactors', '2', rw=rw)
    d.fill(0, NR)
    assert d.devices()['a']['keys'] > NR // 6
    assert d.cli('rpc', 'ssd.drain', 'ns=kv', 'folder=/x').returncode != 0
    cancel = ('ssd.drain', 'ns=kv', f'folder={top}/a', 'how=cancel')
    d.rpc(*cancel)
    assert d.cli('rpc', *cancel, 'rate=1M').returncode != 0
    d.rpc('ssd.drain', 'ns=kv', f'folder={top}/a')
    d.rpc('ssd.drain', 'ns=kv', f'folder={top}/a')
    # One that has nowhere to go.
    assert d.cli('rpc', 'ssd.drain', 'ns=kv', f'folder={top}/b').returncode != 0
    drain(d, 'a')
    dev = d.devices()
    assert dev['a']['keys'] == 0 and dev['b']['keys'] == NR and dev['a']['moved'] > NR // 6
    assert d.cli('rpc', *cancel).returncode != 0
    assert 'drained' in d.cli('stat').stdout.decode()
    assert d.get('/healthz') == 'ok\n'
    d.stop()
    assert d.log.count('drained, nothing is asked of it any more') == 2  # shards
    shutil.rmtree(f'{top}/a')
    d = Node(top, 'b', '--reactors', '3', rw=rw)
    assert d.there(0, NR) == NR
    d.stop()


def test_missing(top):
    d = Node(top, 'ab')
    d.fill(0, NR)
    d.stop()
    # Its file system isn't mounted: there is a folder, and nothing in it.
    os.rename(f'{top}/b', f'{top}/elsewhere')
    os.mkdir(f'{top}/b')
    d = Node(top, 'ab')
    assert d.devices()['b']['state'] == 'missing' and 'which is missing' in d.log
    assert d.get('/healthz') == f'degraded\nnamespace 1: the SSD under {top}/b is missing\n'
    assert 'MISSING' in d.cli('stat').stdout.decode()
    assert not glob.glob(f'{top}/b/*.peal')
    found = d.there(0, NR)
    assert NR // 6 < found < NR
    d.fill(NR, NR)
    assert d.there(NR, NR) == NR
    d.stop()
    os.rmdir(f'{top}/b')
    os.rename(f'{top}/elsewhere', f'{top}/b')
    d = Node(top, 'ab')
    assert d.there(0, 2 * NR) == 2 * NR  # values never change: what it has is right
    d.stop()
    # For good, and another one in its place, under a name that nobody misses.
    shutil.rmtree(f'{top}/b')
    d = Node(top, 'ac')
    assert d.devices()['c']['state'] == 'in' and d.there(NR, NR) > NR // 6
    d.stop()


def test_missing_rw(top):
    """Where values may change what was away is nothing any more."""
    d = Node(top, 'ab', rw=True)
    d.fill(0, NR, 'old')
    d.stop()
    os.rename(f'{top}/b', f'{top}/elsewhere')
    d = Node(top, 'ab', rw=True)
    d.fill(0, NR, 'new')
    d.stop()
    os.rmdir(f'{top}/b')
    os.rename(f'{top}/elsewhere', f'{top}/b')
    d = Node(top, 'ab', rw=True)
    assert d.tier()['keys'] == 0 and d.there(0, NR, 'new') == 0
    d.fill(0, NR, 'newer')
    d.stop()
    d = Node(top, 'ab', rw=True)
    assert d.there(0, NR, 'newer') == NR
    d.stop()


def test_state(top):
    """A word to one of them."""
    d = Node(top, 'ab')
    d.fill(0, NR)
    d.rpc('ssd.state', 'ns=kv', 'state=read_only', f'folder={top}/a')
    assert d.tier()['health']['state'] == 'rw'
    assert d.get('/healthz') == f'degraded\nnamespace 1: the SSD under {top}/a is read_only\n'
    before = d.devices()['a']['keys']
    d.fill(NR, NR)
    assert d.devices()['a']['keys'] == before and d.there(0, 2 * NR) == 2 * NR
    d.rpc('ssd.state', 'ns=kv', 'state=rw')
    assert d.get('/healthz') == 'ok\n'
    assert d.cli('rpc', 'ssd.state', 'ns=kv', 'state=rw', 'folder=/x').returncode != 0
    d.stop()


def test_killed(top):
    """kill -9 in the middle of a drain: what was flushed is there, on one or the other."""
    d = Node(top, 'ab', rw=True)
    d.fill(0, 3 * NR)
    d.rpc('ssd.drain', 'ns=kv', f'folder={top}/b')
    d.process.kill()
    d.process.communicate()
    d = Node(top, 'ab', rw=True)
    assert d.there(0, 3 * NR) == 3 * NR
    drain(d, 'b')
    assert d.there(0, 3 * NR) == 3 * NR
    d.stop()
