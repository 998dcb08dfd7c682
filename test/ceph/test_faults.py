# SPDX-License-Identifier: Apache-2.0
"""Clusters that refuse, or go in part: monitors alone, one OSD of three, rights, a client that is
on the blocklist. Told once; nothing is started again.

usage: PEALD=... PEAL_CLI=... python3 -m pytest test_faults.py
"""

import json
import subprocess
import time

import mini_ceph
import pytest
from nodes import MISS, name, node, until, value


@pytest.fixture(scope='module')
def c():
    with mini_ceph.cluster(settings=mini_ceph.LONG_LEASES) as it:
        yield it


def tiers(c, user='peal', more=''):
    return f'dram 64M | rados pool=kv user={user} conf={c.conf} timeout=2 {more}'


def test_rights(c):
    """A user without them in this RADOS namespace: one line; served as soon as it has them."""
    c.user('late', 'allow rw pool=kv namespace=elsewhere')
    with node(c, ack='rados', tiers=tiers(c, 'late')) as a:
        for _ in range(3):
            assert a.put('0xe0', b'x') not in (0, MISS)
            assert a.get('0xe1') is None
        c.command('auth caps', entity='client.late',
                  caps=['mon', 'allow r', 'osd', 'allow rw pool=kv namespace=kv'])
        until('it may', lambda: a.put('0xe0', b'now') == 0)
        a.stop()
        assert a.log.count('client.late lacks rights') == 1, a.log
        assert a.log.count('pool kv answers') == 2, a.log


def test_read_only(c):
    """Who may only read reads on, while it is refused to write."""
    c.user('reader', 'allow r pool=kv namespace=kv')
    with node(c, ack='rados') as a, node(c, ack='rados', tiers=tiers(c, 'reader')) as b:
        assert a.put('0xe2', b'to be read') == 0
        for _ in range(3):
            assert b.put('0xe3', b'x') not in (0, MISS)
        for i in range(20):
            assert a.put(f'0xe4{i:02x}', b'%d' % i) == 0
            assert b.get(f'0xe4{i:02x}') == b'%d' % i
        assert b.get('0xe2') == b'to be read'
        b.stop()
        assert b.log.count('client.reader lacks rights') == 1, b.log


def addresses(c, user):
    """Of its connections to the monitor, as a blocklist has them."""
    out = subprocess.run(['ceph', '--admin-daemon', f'{c.folder}/run/mon.a.asok', 'sessions'],
                         check=True, capture_output=True, timeout=60).stdout
    return [x['addr'] + '/' + str(x['nonce']) for s in json.loads(out)
            if s['entity_name'] == f'client.{user}' for x in s['addrs']['addrvec']]


def test_blocklisted(c):
    """Shut out as Ceph does it to a client that it fences: a new connection is made."""
    c.user('fenced', 'allow rw pool=kv namespace=kv')
    with node(c, ack='rados', tiers=tiers(c, 'fenced')) as a, node(c) as b:
        assert a.put('0xb10c', b'before') == 0
        for addr in addresses(c, 'fenced'):
            c.command('osd blocklist', blocklistop='add', addr=addr)
        until('it is shut out', lambda: a.put('0xb10d', b'x') != 0)
        until('it is let in', lambda: a.put('0xb10e', b'after') == 0)
        assert b.get('0xb10e') == b'after'
        assert b.get('0xb10c') == b'before'
        for i in range(3):
            assert a.put(f'0xb10f{i:02x}', value(str(i), 300000)) == 0
        a.stop()
        assert a.log.count('shut this client out') == 1, a.log
        assert a.log.count('pool kv answers') == 2, a.log


def test_pool_and_monitors_gone(c):
    """A pool that isn't in the map makes librados ask for a newer one, without an end."""
    c.pool('brief')
    c.user('brief', 'allow rw pool=brief namespace=kv')
    with node(c, ack='rados', tiers=tiers(c, 'brief').replace('pool=kv', 'pool=brief')) as a:
        assert a.put('0x01', b'x') == 0
        c.command('osd pool delete', pool='brief', pool2='brief', yes_i_really_really_mean_it=True)
        # Its map is as old as the last answer that told it of a newer one.
        until('it is told', lambda: a.put('0x02', b'nowhere') not in (0, MISS) and
              'No such file' in a.more_log())
        c.kill('mon')
        try:
            begin = time.monotonic()
            until('it has asked for the pool since, as it does each second',
                  lambda: time.monotonic() - begin > 3)
            begin = time.monotonic()
            a.stop()
            assert time.monotonic() - begin < 15
        finally:
            c.revive('mon')


def test_monitors_gone(c):
    """As long as the map holds nobody misses them; nor does a stop wait for them."""
    with node(c, ack='rados', tiers=tiers(c)) as a, node(c, tiers=tiers(c)) as b:
        assert a.put('0x3001', b'before') == 0
        c.freeze('mon')
        try:
            assert b.get('0x3001') == b'before'
            assert a.put('0x3002', b'meanwhile') == 0
            assert b.get('0x3002') == b'meanwhile'
            c.freeze('osd')  # now it looks for a map, and there is nobody to have it from
            until('it is noticed', lambda: b.put('0x3003', b'x') == 0 and
                  all(b.get(f'0x3004{i:02x}') is None for i in range(8)))
            begin = time.monotonic()
            b.stop()
            assert time.monotonic() - begin < 15
            c.thaw('osd')
            until('it is back without them', lambda: a.get('0x3002') == b'meanwhile')
            until('it takes values', lambda: a.put('0x3005', b'after') == 0)
        finally:
            c.thaw()
        until('they are back', lambda: c.nr_up() == 1)
        assert a.put('0x3006', b'and with them') == 0


def test_one_of_three():
    """Its objects are out of reach until the others report it, then are served by them."""
    keys = [f'17{i:06x}' for i in range(24)]
    with mini_ceph.cluster(osds=3) as c3, \
            node(c3, ack='rados', tiers=tiers(c3)) as a, node(c3, tiers=tiers(c3)) as b:
        for k in keys:
            assert a.put(name(k), value(k, 100000)) == 0
        c3.kill('osd.1')
        for k in keys:
            assert b.get(name(k)) in (value(k, 100000), None)
        until('all are served', lambda: all(b.get(name(k)) == value(k, 100000) for k in keys))
        until('values are taken', lambda: a.put('0x18', b'degraded') == 0)
        c3.revive_osds('osd.1')
        assert a.put('0x19', b'whole') == 0
        assert b.get('0x19') == b'whole'
