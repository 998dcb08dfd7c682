# SPDX-License-Identifier: Apache-2.0
"""Daemons with a rados tier over one real cluster, as the user with the least rights: what they
share, what lies in the pool, what is damaged there, and what happens while the cluster doesn't
answer.

usage: PEALD=... PEAL_CLI=... python3 -m pytest test_rados.py
"""

import struct
import subprocess
import time

import mini_ceph
import pytest
from nodes import MISS, PEALD, name, node, until, value

VALUE_MAX = 64 << 20


@pytest.fixture(scope='module')
def c():
    with mini_ceph.cluster() as it:
        yield it


@pytest.fixture(scope='module')
def pool(c):
    io = c.rados('peal').open_ioctx('kv')
    io.set_namespace('kv')
    return io


def test_shared(c, pool):
    """Stored through one, retrieved through the other; in the pool it is what was stored."""
    sizes = [1, 4096, 65536, 65537, (1 << 20) + 5, (3 << 20) + 12345, 20 << 20]
    with node(c, ack='rados') as a, node(c) as b:
        for i, size in enumerate(sizes):
            key = f'5ea1ed{i:02x}'
            v = value(key, size)
            assert a.put(name(key), v) == 0
            assert pool.stat(key)[0] == size
            assert pool.read(key, size + 1) == v
            assert b.get(name(key)) == v
            assert b.get(name(key)) == v  # from its memory now
        hits = b.rados()['hits']
        for i, size in enumerate(sizes):
            assert b.get(name(f'5ea1ed{i:02x}')) == value(f'5ea1ed{i:02x}', size)
        assert b.rados()['hits'] == hits


def test_ranges(c, pool):
    v = value('ranges', (2 << 20) + 77777)
    pool.write_full('4a6e0001', v)  # raw
    with node(c, ack='rados') as a, node(c) as b:
        assert a.put(name('4a6e0002'), v) == 0
        for key in ('4a6e0001', '4a6e0002'):
            for off, n in ((0, 1), (4096, 100), (65536, 65536), ((1 << 20) - 4096, 8192),
                           (2 << 20, 1 << 20), (69632, 3 << 20)):
                assert b.get(name(key), '--offset', str(off), '--length', str(n)) == v[off:off + n]


def test_raw(c, pool):
    """What `rados put` has written, and the public rados-nkv layout with its time to live."""
    pool.write_full('0a', b'of nobody')
    pool.write_full('0b', value('0b', 200000))
    pool.write_full('0c', b'lives')
    pool.set_xattr('0c', 'kv_ttl', struct.pack('<I', 3600))
    pool.write_full('0d', b'lived')
    pool.set_xattr('0d', 'kv_ttl', struct.pack('<I', 1))
    pool.write_full('0e', b'who knows')
    pool.set_xattr('0e', 'kv_ttl', b'tomorrow or so')
    age = time.time()
    with node(c) as a:
        assert a.get('0x0a') == b'of nobody'
        assert a.get('0x0b') == value('0b', 200000)
        assert a.get('0x0c') == b'lives'
        assert a.get('0x0e') is None
        until('older than a second', lambda: time.time() - age > 2.5)
        assert a.get('0x0d') is None
        assert a.cli('exist', '0x0c').returncode == 0
        assert a.cli('exist', '0x0d').returncode == MISS
        a.stop()
        assert 'alert' not in a.log, a.log


DAMAGE = {
    'data': lambda io, k, v: io.write_full(k, bytes([v[0] ^ 1]) + v[1:]),
    'a later chunk': lambda io, k, v: io.write(k, b'\0' * 10, 150000),
    'longer': lambda io, k, v: io.append(k, b'x'),
    'shorter': lambda io, k, v: io.trunc(k, len(v) - 1),
    'empty': lambda io, k, v: io.trunc(k, 0),
    'head': lambda io, k, v: io.set_xattr(k, 'peal.head', b'x' * 112),
    'no head': lambda io, k, v: io.rm_xattr(k, 'peal.head'),
    'seals': lambda io, k, v: io.set_xattr(k, 'peal.seals', b'y' * 32),
    'no seals': lambda io, k, v: io.rm_xattr(k, 'peal.seals'),
}


def test_damaged(c, pool):
    """Never bytes: a miss and one line. Put again, it is served."""
    with node(c, ack='rados') as a, node(c) as b:
        for i, (what, damage) in enumerate(DAMAGE.items()):
            key = f'bad0{i:02x}'
            v = value(what, 200000)
            assert a.put(name(key), v) == 0
            damage(pool, key, v)
            assert b.get(name(key)) is None, what
            assert b.get(name(key)) is None, what
            assert b.rados()['bad_seals'] == i + 1, what
            assert a.put(name(key), v) == 0
            assert b.get(name(key)) == v, what
        b.stop()
        assert b.log.count('dropped, answered as a miss') == len(DAMAGE)


def test_conditions(c, pool):
    """One operation of the cluster each, so of two nodes one is the first."""
    with node(c, ack='rados') as a, node(c, ack='rados') as b:
        assert a.put('0xc0de01', b'a', '--if-absent') == 0
        assert b.put('0xc0de01', b'b', '--if-absent') not in (0, MISS)
        assert pool.read('c0de01') == b'a'
        assert b.put('0xc0de02', b'b', '--if-present') == MISS
        assert a.put('0xc0de02', b'a') == 0
        assert b.put('0xc0de02', b'bb', '--if-present') == 0
        assert pool.read('c0de02') == b'bb'
        assert b.get('0xc0de01') == b'a'
        pool.remove_object('c0de01')  # behind our back: what b has in memory is no proof
        assert b.put('0xc0de01', b'b', '--if-present') == MISS


def test_delete(c, pool):
    with node(c, ack='rados', immutable='no') as a, node(c, immutable='no') as b:
        for ack in (a, b):
            assert ack.put('0xde1e7e', b'first') == 0
            assert ack.put('0xde1e7e', b'second') == 0
            assert ack.get('0xde1e7e') == b'second'
            assert ack.cli('del', '0xde1e7e').returncode == 0
            assert ack.cli('del', '0xde1e7e').returncode == MISS
            assert ack.get('0xde1e7e') is None
            with pytest.raises(Exception, match='(?i)not found|ENOENT'):
                pool.stat('de1e7e')


def test_fresh(c):
    """Where values change, what another node has replaced or deleted is not answered from memory
    for longer than a second: a get that begins later sees it. The longest is printed."""
    longest = 0
    with node(c, ack='rados', immutable='no') as a, node(c, ack='rados', immutable='no') as b:
        for i in range(6):
            new = f'{i}'.encode() if i % 3 < 2 else None
            if new:
                assert a.put('0xf4e5', new) == 0
            else:
                assert a.cli('del', '0xf4e5').returncode == 0
            done = begin = time.monotonic()
            while b.get('0xf4e5') != new:
                longest = max(longest, begin - done)
                begin = time.monotonic()
            assert b.get('0xf4e5') == new
    print(f'longest: {longest * 1000:.0f} ms')
    assert longest <= 1


def test_ssd(c, tmp_path):
    """Between memory and the pool a cache of what this node has put: served without the cluster."""
    tiers = f'dram 4M | ssd {tmp_path}/ssd 256M | rados pool=kv conf={c.conf} timeout=3'
    keys = [f'0x55d0{i:04x}' for i in range(40)]
    with node(c, tiers=tiers, ack='rados') as a, node(c) as b:
        for k in keys:
            assert a.put(k, value(k, 300000)) == 0
        c.freeze('osd')
        try:
            assert sum(a.get(k) == value(k, 300000) for k in keys) == len(keys)
        finally:
            c.thaw('osd')
        until('it is back', lambda: b.get(keys[0]) == value(keys[0], 300000))
        assert all(b.get(k) == value(k, 300000) for k in keys)
    with node(c, tiers=tiers) as a:
        assert all(a.get(k) == value(k, 300000) for k in keys)


def test_list(c, pool):
    """Its own at once, those of others as the pool's list says, no names that aren't keys."""
    pool.write_full('not-a-key', b'x')
    pool.write_full('11570001', b'x')
    with node(c, ack='rados') as a:
        until('the list of the pool', lambda: '11570001' in str(a.keys()))
        assert a.put('0x11570002', b'y') == 0
        keys = a.keys()
        assert any('11570002' in k for k in keys) and len(keys) == len(set(keys))
        assert not any('not' in k for k in keys)
        assert a.cli('match', '0x11570001', '0x11570002', '0x11570003').stdout.startswith(b'2')
        assert a.cli('del', '0x11570001').returncode == 0
        assert not any('11570001' in k for k in a.keys())
    pool.remove_object('not-a-key')


def test_largest(c, pool):
    """64 MiB, and no byte more."""
    v = value('largest', VALUE_MAX + 1)
    with node(c, ack='rados', memory='512M') as a, node(c, memory='512M') as b:
        a.deadline_ms = b.deadline_ms = 50000  # a loaded machine takes its time for 64 MiB
        assert a.put('0xb16b16', v[:-1]) == 0
        assert b.get('0xb16b16') == v[:-1]
        done = a.cli('put', '0xb16b17', '-', input=v)
        assert done.returncode not in (0, MISS)
        assert pool.stat('b16b16')[0] == VALUE_MAX
    pool.remove_object('b16b16')


def test_write_back(c, pool):
    """Acknowledged by memory: in the pool when it is flushed, and when the daemon has stopped."""
    with node(c) as a:
        assert a.put('0xbac40001', value('back', 300000)) == 0
        assert a.cli('rpc', 'ns.flush', 'ns=kv').returncode == 0
        assert pool.read('bac40001', 400000) == value('back', 300000)
        assert a.put('0xbac40002', b'at the end') == 0
    assert pool.read('bac40002') == b'at the end'


def test_frozen():
    """A cluster that doesn't answer: misses in time, memory goes on; it comes back by itself."""
    with mini_ceph.cluster(settings=mini_ceph.LONG_LEASES) as c, node(c, rados='timeout=3') as a, \
            node(c, ack='rados', rados='timeout=3') as b:
        pool = c.rados('peal').open_ioctx('kv')
        pool.set_namespace('kv')
        far = [f'f4020f{i:02x}' for i in range(16)]  # of several placement groups
        for k in far:
            pool.write_full(k, b'out of reach')
        assert a.put('0xf4020e02', b'in memory') == 0
        assert a.get('0xf4020e02') == b'in memory'
        c.freeze('osd')
        begin = time.monotonic()
        assert a.get(name(far[0])) is None
        assert time.monotonic() - begin < 5
        begin = time.monotonic()
        for _ in range(20):
            assert a.get(name(far[0])) is None  # nobody waits again
        assert time.monotonic() - begin < 5
        assert a.get('0xf4020e02') == b'in memory'
        assert a.put('0xf4020e03', b'later') == 0
        assert b.put('0xf4020e04', b'now') not in (0, MISS)
        c.thaw('osd')
        until('it is back', lambda: all(a.get(name(k)) == b'out of reach' for k in far))
        assert a.cli('rpc', 'ns.flush', 'ns=kv').returncode == 0
        assert pool.read('f4020e03') == b'later'
        until('it is back', lambda: b.put('0xf4020e05', b'again') == 0)
        a.stop()
        assert a.log.count('until it is back') == 1, a.log
        assert a.log.count('pool kv answers') == 2, a.log


def osd_of(c, key):
    return c.command('osd map', pool='kv', object=key, nspace='kv')['acting_primary']


def test_dead_groups():
    """Groups that nobody serves any more: their keys are misses, all others are answered."""
    with mini_ceph.cluster(osds=3) as c:
        for var in ('min_size', 'size'):
            c.command('osd pool set', pool='kv', var=var, val='1', yes_i_really_mean_it=True)
        pool = c.rados('peal').open_ioctx('kv')
        pool.set_namespace('kv')
        keys = [f'deadbe{i:02x}' for i in range(64)]
        # None of the objects that are asked for first are where somebody is left.
        asked = {osd_of(c, k) for k in ('peal.probe', 'peal.probe.0')}
        left = next(osd for osd in range(3) if osd not in asked)
        live = [k for k in keys if osd_of(c, k) == left][:8]
        dead = [k for k in keys if osd_of(c, k) != left][:8]
        for k in live + dead:
            pool.write_full(k, b'value')
        with node(c, rados='timeout=2') as a:
            assert a.get(name(live[0])) == b'value'
            c.kill(*(f'osd.{osd}' for osd in range(3) if osd != left))
            for k in dead:
                assert a.get(name(k)) is None
            until('others answer', lambda: all(a.get(name(k)) == b'value' for k in live))
            a.stop()
            # Down by the silence of the dead; again, if they were asked for when it was up.
            assert 1 <= a.log.count('until it is back') <= 2, a.log
            assert a.log.count('pool kv answers') == 1 + a.log.count('until it is back'), a.log


def test_killed(c, pool):
    """The only OSD dies and comes back; what was acknowledged is there."""
    with node(c, ack='rados', rados='timeout=3') as a, node(c, rados='timeout=3') as b:
        assert a.put('0x0511ed', b'acknowledged') == 0
        c.kill('osd.0')
        assert b.get('0x0511ed') is None
        c.revive_osds('osd.0')
        until('it is back', lambda: b.get('0x0511ed') == b'acknowledged')
        until('it takes values', lambda: a.put('0x0511ee', b'x') == 0)


def test_pool_anew(c):
    """A pool that is deleted and made anew is found again, without what was in it."""
    c.pool('other')
    c.user('peal-other', 'allow rw pool=other namespace=kv')
    tiers = f'dram 64M | rados pool=other user=peal-other conf={c.conf} timeout=3'
    with node(c, ack='rados', tiers=tiers) as a, node(c, tiers=tiers) as b:
        assert a.put('0x9001', b'first') == 0
        c.command('osd pool delete', pool='other', pool2='other', yes_i_really_really_mean_it=True)
        assert a.put('0x9002', b'nowhere') not in (0, MISS)
        assert b.get('0x9001') is None
        c.pool('other')
        until('it is found', lambda: a.put('0x9003', b'second') == 0)
        until('by the other, too', lambda: b.get('0x9003') == b'second')
        assert b.get('0x9001') is None


def test_full():
    """A quota that is reached: refused at once; what is there is read and may be deleted."""
    with mini_ceph.cluster(mgr=True) as c, node(c, ack='rados', rados='timeout=3') as a, \
            node(c, rados='timeout=3') as b:
        assert a.put('0xf0', b'before') == 0
        c.command('osd pool set-quota', pool='kv', field='max_objects', val='2')
        i = 0
        while a.put(f'0xf1{i:04x}', b'more') == 0:
            i += 1
            assert i < 10000
        begin = time.monotonic()
        assert a.put('0xf2', b'too much') not in (0, MISS)
        assert time.monotonic() - begin < 2
        assert a.rados()['full'] >= 1
        assert b.get('0xf0') == b'before'
        assert a.cli('del', '0xf0').returncode == 0
        c.command('osd pool set-quota', pool='kv', field='max_objects', val='0')
        until('there is room', lambda: a.put('0xf2', b'again') == 0)


def test_no_rights(c):
    """Neither a wrong key nor a pool that isn't there stops a daemon: it is memory alone."""
    c.write('client.peal-wrong.keyring', '[client.peal-wrong]\n'
            '\tkey = AQDUsg1r1Z7kGRAACSg7ydFKiX0TfeyM9Dh70w==\n')
    for tier, says, told in (
            ('pool=kv user=peal-wrong', 'the monitors refuse client.peal-wrong', True),
            ('pool=nowhere', 'pool nowhere: No such file', True),
            ('pool=kv user=nobody', 'pool kv: No such file', True),
            ('pool=kv ns=foreign', "client.peal lacks rights in RADOS namespace 'foreign'", False)):
        with node(c, ack='dram', tiers=f'dram 64M | rados {tier} conf={c.conf} timeout=2',
                  waits=False) as a:
            if told:
                a.wait_log(says)
            assert a.put('0x01', b'memory') == 0
            assert a.get('0x01') == b'memory'
            for _ in range(3):
                assert a.get('0x02') is None
            if not told:  # by what was asked of it
                a.wait_log(says)
            assert a.rados()['hits'] == a.rados()['puts'] == 0
            a.stop()
            assert a.log.count(says) == 1, a.log


def test_no_conf(tmp_path):
    done = subprocess.run([PEALD, '--dir', f'{tmp_path}/run', '--tiers',
                           f'dram 64M | rados pool=kv conf={tmp_path}/nothing'],
                          capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == 1
    assert "the configuration of its rados tier isn't there" in done.stderr
