#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal fsck over what a real peald left, whole and damaged, and beside one that runs.

usage: PEALD=... PEAL_CLI=... python3 -m pytest fsck.py
"""

import glob
import hashlib
import json
import os
import subprocess
import tempfile

import peer
import pytest

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']
NR_KEYS = 100


def cli(*args, **kw):
    return subprocess.run([PEAL, *args], capture_output=True, text=True, timeout=120, check=False,
                          **kw)


def fsck(*args):
    done = cli('--json', 'fsck', *args)
    return done.returncode, [json.loads(x) for x in done.stdout.splitlines()]


def of_type(lines, kind):
    return [x for x in lines if x['type'] == kind]


@pytest.fixture(name='folder', scope='module')
def fixture_folder():
    """What a daemon has left that was stopped, in two shards. On a disk, for O_DIRECT."""
    with tempfile.TemporaryDirectory(prefix='peal-fsck.', dir='.') as folder:
        tiers = f'dram 16M | ssd {folder} 64M'
        with peer.daemon(PEALD, '--tiers', tiers, '--reactors', '2', '--value-max', '1M') as d:
            for i in range(NR_KEYS):
                subprocess.run([PEAL, '-u', d.uri, 'put', f'key-{i}', '-'], check=True, timeout=60,
                               input=str(i).encode() * (100 + 900 * i))
            # A daemon has it.
            done = cli('fsck', folder)
            assert done.returncode == 3 and 'a daemon has it' in done.stderr, done
            assert cli('fsck', '--force-read', folder).returncode in (0, 1)
        yield folder


def images(folder):
    return sorted(glob.glob(f'{folder}/*.peal'))


def sums(folder):
    return [hashlib.sha256(open(p, 'rb').read()).hexdigest() for p in images(folder)]


def test_clean(folder):
    before = sums(folder)
    rc, lines = fsck('--data', '--entries', folder)
    assert rc == 0 and not of_type(lines, 'damage') and not of_type(lines, 'torn'), lines[:9]
    assert [x['state'] for x in of_type(lines, 'superblock')] == ['good'] * 4
    ns, = of_type(lines, 'namespace')
    assert ns['namespace'] == 'kv' and ns['shards'] == ns['shards_seen'] == 2
    assert ns['live'] == NR_KEYS and ns['lost'] == 0
    live = {x['key']: x for x in of_type(lines, 'entry') if x['state'] == 'live'}
    assert set(live) == {f'key-{i}' for i in range(NR_KEYS)}
    assert all(live[f'key-{i}']['bytes'] == len(str(i)) * (100 + 900 * i) for i in range(NR_KEYS))
    assert ns['live_bytes'] == sum(x['bytes'] for x in live.values())
    # Never writes.
    assert sums(folder) == before


def test_text(folder):
    done = cli('fsck', images(folder)[0])
    assert done.returncode == 0 and 'superblock A  good: namespace kv, shard 0 of 2' in done.stdout
    assert 'found         nothing wrong' in done.stdout
    assert 'namespace kv: 1 of 2 shards' in done.stdout


def flipped(path, at, tmp):
    data = bytearray(open(path, 'rb').read())
    data[at] ^= 4
    out = f'{tmp}/{os.path.basename(path)}'
    with open(out, 'wb') as f:
        f.write(data)
    return out


def test_damaged(folder, tmp_path):
    path = images(folder)[0]
    _, lines = fsck('--entries', path)
    entry = [x for x in of_type(lines, 'entry') if x['state'] == 'live'][0]
    segment = [x for x in of_type(lines, 'segment') if x['state'] == 'sealed'][0]
    for at, data, what in [
            (100, False, 'superblock A is damaged'),
            (segment['address'] + 40, False, "the segment's head is damaged"),
            (entry['address'] + 50, False, "its record's head is damaged"),
            (entry['address'] + 300, True, "its bytes don't fit their seal")]:
        bad = flipped(path, at, tmp_path)
        rc, lines = fsck(*(['--data'] if data else []), bad)
        texts = [x['text'] for x in of_type(lines, 'damage')]
        assert rc == 1 and any(what in x for x in texts), (at, texts)
        done = cli('fsck', '--data', bad)
        assert done.returncode == 1 and 'DAMAGE' in done.stdout and what in done.stdout


def test_cut(folder, tmp_path):
    whole = open(images(folder)[0], 'rb').read()
    path = f'{tmp_path}/cut.peal'
    for size in (0, 100, 4096, 1 << 20, len(whole) // 2, len(whole) - 512):
        with open(path, 'wb') as f:
            f.write(whole[:size])
        rc, _ = fsck('--data', path)
        assert rc == (0 if size == 0 else 1), size


def test_wrong_call(tmp_path):
    assert cli('fsck').returncode == 2
    assert cli('fsck', '--nonsense', 'x').returncode == 2
    assert cli('fsck', f'{tmp_path}/nothing').returncode == 3
    done = cli('fsck', str(tmp_path))
    assert done.returncode == 3 and 'no file in it ends with .peal' in done.stderr
