# SPDX-License-Identifier: Apache-2.0
"""peal expire: by age alone, at its rate, keys alone, and nothing that was put again; of a pool
that is full, of one that answers in part, by a clock that is ahead.

usage: PEAL_CLI=... python3 -m pytest test_expire.py
"""

import json
import os
import subprocess
import threading
import time

import mini_ceph
import pytest
import rados
from nodes import MISS, node, until

PEAL = os.environ['PEAL_CLI']
DAY = 86400


@pytest.fixture(scope='module')
def c():
    with mini_ceph.cluster() as it:
        yield it


def space(c, ns='kv', user='admin'):
    io = c.rados(user).open_ioctx('kv')
    io.set_namespace(ns)
    return io


def written(io, key, age_s, data=b'value', *, raw=False):
    """An object that was written so long ago, by a peald for all that anybody looks at."""
    with rados.WriteOpCtx() as op:
        op.write_full(data)
        if not raw:
            op.set_xattr('peal.head', b'PEALOBJ1')
        io.operate_write_op(op, key, mtime=int(time.time()) - age_s)


def names(io):
    return {o.key for o in io.list_objects()}


def expire(c, *args, rc=0, words='', env=None):
    tier = f'pool=kv ns=kv user=peal conf={c.conf} {words}'
    done = subprocess.run([PEAL, '--json', 'expire', '--rados', tier, *args], check=False,
                          capture_output=True, text=True, timeout=120, env=env)
    print(done.stderr)
    assert done.returncode == rc, done
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_by_age(c):
    io, other = space(c), space(c, 'other')
    for i in range(20):
        written(io, f'0a{i:02x}', 30 * DAY + 60, b'x' * 1000)
        written(io, f'0b{i:02x}', 29 * DAY)
    written(io, '0c', -DAY)  # of a clock that is ahead
    written(io, 'not-a-key', 1000 * DAY)
    written(io, '0D', 1000 * DAY)
    written(other, '0a00', 1000 * DAY)
    there = names(io)
    said = expire(c, '--older', '30d', '--dry-run')
    assert said == {'looked': 41, 'removed': 20, 'removed_bytes': 20000, 'younger': 21,
                    'changed': 0, 'raw': 0, 'unanswered': 0, 'dry_run': True}
    assert names(io) == there
    said = expire(c, '--older', '30d')
    assert said['removed'] == 20 and said['looked'] == 41, said
    assert names(io) == {n for n in there if not n.startswith('0a')}
    assert names(other) == {'0a00'}
    assert expire(c, '--older', '30d')['removed'] == 0
    assert expire(c, '--older', '1w')['removed'] == 20
    assert names(io) == {'0c', 'not-a-key', '0D'}


def test_raw(c):
    """What no peald has written has a name that is a key by accident: it goes when told to."""
    io = space(c, 'raw')
    c.user('raw', 'allow rw pool=kv namespace=raw')
    written(io, 'b0', DAY, raw=True)
    written(io, 'b1', DAY)
    words = 'pool=kv ns=raw user=raw'

    def by(*args):
        done = subprocess.run([PEAL, '--json', 'expire', '--rados', f'{words} conf={c.conf}',
                               '--older', '1h', *args], check=True, capture_output=True,
                              timeout=120)
        return json.loads(done.stdout)
    said = by()
    assert said['removed'] == 1 and said['raw'] == 1, said
    assert names(io) == {'b0'}
    said = by('--raw')
    assert said['removed'] == 1 and said['raw'] == 0, said
    assert not names(io)


def test_daemon_sees_it(c):
    with node(c, ack='rados', immutable='no') as a:
        assert a.put('0xe1', b'young') == 0
        written(space(c), 'e2', DAY, raw=True)
        assert a.get('0xe2') == b'value'
        assert expire(c, '--older', '12h', '--raw')['removed'] == 1
        end = time.monotonic() + 1
        while a.get('0xe2') is not None:
            assert time.monotonic() < end + 10
        assert a.cli('exist', '0xe2').returncode == MISS
        assert a.get('0xe1') == b'young'


def test_rate(c):
    io = space(c)
    for i in range(30):
        written(io, f'7a{i:02x}', DAY)
    begin = time.monotonic()
    assert expire(c, '--older', '12h', '--rate', '30')['removed'] == 30
    assert time.monotonic() - begin > 59 / 30  # a look and a removal each


def test_put_again_meanwhile(c):
    """What is written while it runs stays, whenever that is."""
    io = space(c)
    keys = [f'9a{i:02x}' for i in range(60)]
    for k in keys:
        written(io, k, DAY)
    anew = set()

    def write():
        for k in keys[::3]:
            io.write_full(k, b'anew')
            anew.add(k)
    t = threading.Thread(target=write)
    t.start()
    said = expire(c, '--older', '12h', '--rate', '500')
    t.join()
    assert anew <= names(io)
    assert all(io.read(k) == b'anew' for k in anew)
    assert said['removed'] + said['changed'] + said['younger'] >= len(keys) - len(anew), said


def test_refused(c):
    c.user('reader', 'allow r pool=kv namespace=kv')
    written(space(c), 'aa', DAY)
    tier = f'pool=kv ns=kv user=reader conf={c.conf}'
    done = subprocess.run([PEAL, 'expire', '--rados', tier, '--older', '1h'], check=False,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and 'Operation not permitted' in done.stderr, done
    assert 'aa' in names(space(c))
    for args in (('--older', '30'), ('--older', 'd'), ('--older', '0d'), ('--older', '-1d'),
                 ('--older', '99999999w'), (), ('--older', '1d', 'more'),
                 ('--older', '1d', '--rate', '0')):
        assert 'expected' in expire(c, *args, rc=2), args
    done = subprocess.run([PEAL, 'expire', '--rados', f'pool=kv conf={c.conf}', '--older', '1d'],
                          check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and 'pool= and ns=' in done.stderr, done
    assert "can't connect" in expire(c, '--older', '1d', rc=3, words='keyring=/nowhere')


def test_full():
    """A pool that takes nothing any more is what it is for."""
    with mini_ceph.cluster(mgr=True) as c:
        io = space(c)
        for i in range(20):
            written(io, f'f0{i:02x}', DAY)
        c.command('osd pool set-quota', pool='kv', field='max_objects', val='2')
        c.wait_for('it is full', lambda: any(
            'full_quota' in p['flags_names'] for p in c.command('osd dump')['pools']
            if p['pool_name'] == 'kv'))
        begin = time.monotonic()
        assert expire(c, '--older', '12h')['removed'] == 20
        assert time.monotonic() - begin < 20
        assert not names(io)


# Like time(2) on a machine whose clock is ten years ahead.
AHEAD = '''\
#include <time.h>
#include <stddef.h>
time_t time(time_t *to)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 3650L * 86400;
	if (to)
		*to = ts.tv_sec;
	return ts.tv_sec;
}
'''


def test_clock_ahead(c, tmp_path):
    """Of the machine that it runs on: the monitors know better."""
    (tmp_path / 'ahead.c').write_text(AHEAD)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', f'{tmp_path}/ahead.so',
                    f'{tmp_path}/ahead.c'], check=True, timeout=60)
    io = space(c)
    written(io, 'c0', DAY)
    written(io, 'c1', 90 * DAY)
    env = {**os.environ, 'LD_PRELOAD': f'{tmp_path}/ahead.so',
           'ASAN_OPTIONS': 'verify_asan_link_order=0'}
    expire(c, '--older', '30d', env=env)
    assert 'c0' in names(io) and 'c1' not in names(io)


def test_dead_groups():
    """Placement groups that nobody serves: the others' objects go, and it says so."""
    with mini_ceph.cluster(osds=3) as c:
        for var in ('min_size', 'size'):
            c.command('osd pool set', pool='kv', var=var, val='1', yes_i_really_mean_it=True)
        io = space(c)
        keys = [f'deadbe{i:02x}' for i in range(64)]

        def where():
            return {k: c.command('osd map', pool='kv', object=k, nspace='kv')['acting_primary']
                    for k in keys}
        for k in keys:
            written(io, k, DAY)
        at = where()
        left = at[keys[0]]
        live = {k for k in keys if at[k] == left}
        assert live != set(keys)
        c.kill(*(f'osd.{osd}' for osd in range(3) if osd != left))
        said = expire(c, '--older', '12h', words='timeout=3', rc=3)
        assert said['removed'] == len(live), said
        assert said['unanswered'] in range(1, 8), said
        c.revive_osds('osd')
        until('the rest', lambda: names(io) == set(keys) - live)
        assert expire(c, '--older', '12h')['removed'] == len(keys) - len(live)
