#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a real peald with an SSD tier tells of its device's health and lets an operator do: wear by
a SMART page in a file, the tier's state, budgets, keys that failed, room on the file system.

usage: PEALD=... PEAL_CLI=... python3 -m pytest ctl_ssd.py
"""

import os
import re
import subprocess

import peer
import pytest

PEALD = os.environ['PEALD']


def smart(path, used, spare=100):
    page = bytearray(512)
    page[3], page[4], page[5] = spare, 10, used
    page[48:56] = (1000000).to_bytes(8, 'little')
    with open(path + '.new', 'wb') as f:
        f.write(page)
    os.rename(path + '.new', path)


class Node(peer.Node):
    """A daemon with 1 MiB of memory over an SSD tier of 64 MiB, worn as asked."""

    def __init__(self, folder, used, *more):
        self.smart = f'{folder}/smart'
        smart(self.smart, used)
        config = f'{folder}/peald.yaml'
        with open(config, 'w', encoding='utf-8') as f:
            f.write(f'namespaces:\n  - name: kv\n    tiers: dram 1M | ssd {folder}/ssd 64M\n')
        super().__init__(PEALD, folder, '--config', config, '--ssd-smart', self.smart,
                         *more)

    def fill(self, first, nr):
        """Values of 64 KiB: memory holds a few of them, the others go down."""
        for i in range(first, first + nr):
            done = self.cli('put', f'key{i}', '-', input=os.urandom(65536))
            assert done.returncode == 0, done.stderr

    def has(self, i):
        return self.cli('get', f'key{i}').returncode == 0


@pytest.fixture(name='worn')
def fixture_worn(tmp_path):
    d = Node(str(tmp_path), 85)
    yield d
    d.stop()


@pytest.fixture(name='good')
def fixture_good(tmp_path):
    d = Node(str(tmp_path), 40)
    yield d
    d.stop()


def test_good(good):
    assert good.get('/healthz') == 'ok\n'
    good.fill(0, 60)
    dev = good.rpc('ssd.devices')[0]
    assert dev['wear'] == 'ok' and dev['may_write'] and not dev['tight']
    assert dev['used_percent'] == 40 and dev['device'] == good.smart
    assert dev['device_written_bytes'] == 1000000 * 512000
    health = good.tier()['health']
    assert health['state'] == 'rw'
    assert health['written_bytes']['back'] > 40 * 65536
    assert health['written_bytes']['first'] == 0  # a file is made without writing it
    assert sum(health['written_bytes'].values()) == good.rpc('ssd.devices')[0]['written_bytes']
    text = good.get('/metrics')
    assert 'peal_device_used_percent{folder="' in text
    assert re.search(r'peal_tier_device_written_bytes_total\{.*cause="back"\} [1-9]', text)
    for what in ('stat',), ('top', '--plain', '--count', '1'):
        out = good.cli(*what).stdout.decode()
        assert '40 % of its life used' in out and 'written ' in out, out


def test_doctor(good):
    lines = good.cli('doctor').stdout.decode().splitlines()
    line = [x for x in lines if x.split()[1:2] == ['ssd']][0]
    assert line.startswith('good') and '40 % of its life used' in line, line
    good.rpc('ssd.wear', f'folder={good.folder}/ssd', 'how=stop')
    line = [x for x in good.cli('doctor').stdout.decode().splitlines() if ' ssd ' in x][0]
    assert line.startswith('BAD') and 'NOT WRITTEN' in line, line


def test_worn(worn):
    assert 'nothing more is written' in worn.log
    assert worn.get('/healthz').startswith('degraded\n')
    worn.fill(0, 60)
    assert not worn.has(0) and worn.has(59)
    health = worn.tier()['health']
    assert health['refused']['wear'] > 40 and health['written_bytes']['back'] == 0
    folder = worn.rpc('ssd.devices')[0]['folder']
    # An operator knows better.
    assert worn.rpc('ssd.wear', f'folder={folder}', 'how=write')['may_write']
    worn.fill(100, 60)
    assert worn.has(100)
    assert not worn.rpc('ssd.wear', f'folder={folder}', 'how=auto')['may_write']
    assert worn.has(100)
    assert 'NOT WRITTEN' in worn.cli('stat').stdout.decode()
    assert worn.cli('rpc', 'ssd.wear', 'folder=/x', 'how=auto').returncode != 0


def test_state(good):
    good.fill(0, 60)
    assert good.rpc('ssd.state', 'ns=kv', 'state=off') == {}
    assert good.get('/healthz') == 'degraded\nnamespace 1: tier 1-ssd is off\n'
    assert not good.has(0) and good.has(59)
    good.fill(100, 60)
    assert not good.has(100) and good.has(159)
    assert good.tier()['health']['refused']['state'] > 40
    assert 'peal_tier_state{namespace="kv",nsid="1",tier="1-ssd"} 2' in good.get('/metrics')
    good.rpc('ssd.state', 'ns=1', 'state=rw')
    assert good.get('/healthz') == 'ok\n'
    assert good.has(0)


def test_budget_and_bad(good):
    good.rpc('ssd.budget', 'ns=kv', 'size=1')
    assert good.tier()['health']['budget_day_bytes'] == 1
    good.fill(0, 60)
    assert good.tier()['health']['refused']['budget'] > 40
    good.rpc('ssd.budget', 'ns=kv', 'size=0')
    good.fill(0, 60)
    assert good.has(0)
    assert good.rpc('ssd.bad', 'ns=kv') == []
    assert good.rpc('ssd.bad_clear', 'ns=kv') == {'keys': 0}
    assert good.cli('rpc', 'ssd.bad', 'ns=nobody').returncode != 0


def test_min_free(tmp_path):
    """A file that would take what has to stay free isn't made."""
    with pytest.raises(SystemExit):
        Node(str(tmp_path), 1, '--ssd-min-free', '60T')
    assert not [f for f in os.listdir(tmp_path / 'ssd') if f.endswith('.peal')]


def test_cap(tmp_path):
    """All files of a folder together never go beyond its cap; those that are there are opened."""
    def tiers(*names):
        return [x for n in names for x in ('--tiers', f'{n}=dram 1M | ssd {tmp_path}/ssd 64M')]
    cap = ('--ssd-cap', '100M')
    done = subprocess.run([PEALD, '--dir', str(tmp_path / 'run'), *tiers('a', 'b'), *cap],
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and b'beyond ssd.cap' in done.stderr, done
    assert os.listdir(tmp_path / 'ssd') == ['a.0.peal']
    with peer.daemon(PEALD, *tiers('a'), *cap):
        pass
    with peer.daemon(PEALD, *tiers('a'), '--ssd-cap', '1M'):
        pass
    with peer.daemon(PEALD, *tiers('a', 'b'), '--ssd-cap', '128M'):
        pass


def test_gives_back(tmp_path):
    """Others have filled the file system: the file gets holes, its values stay."""
    d = Node(str(tmp_path), 1)
    d.fill(0, 40)
    d.stop()
    path = tmp_path / 'ssd' / 'kv.0.peal'
    before = os.stat(path).st_blocks * 512
    d = Node(str(tmp_path), 1, '--ssd-min-free', '60T')
    try:
        assert 'folder ' in d.get('/healthz')
        while d.tier()['health']['recovering']:
            pass  # what isn't found yet is a miss
        assert d.has(0)  # from its SSD, and the tier is awake
        while d.tier()['health']['given_back_bytes'] == 0:
            pass  # the test's own time limit ends it
        assert os.stat(path).st_blocks * 512 < before
        assert d.has(39)
    finally:
        d.stop()
