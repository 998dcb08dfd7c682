# SPDX-License-Identifier: Apache-2.0
"""Clusters that change what a handle of librados was made with, the user's key, the monitors'
addresses, and the end of a namespace whose cluster is silent. Nothing is started again.

usage: PEALD=... PEAL_CLI=... python3 -m pytest test_new_handle.py
"""

import contextlib
import json
import subprocess

import mini_ceph
from nodes import MISS, PEAL, node, until, value

LATES = 5  # in a row that aren't answered: nobody answers


def tiers(c, user='peal', timeout=2):
    return f'dram 64M | rados pool=kv user={user} conf={c.conf} timeout={timeout}'


def test_new_key():
    """Revoked, and made anew: the handle that has the old one is silent for ever."""
    # A ticket is good for seconds, so a key that has gone is noticed at the next connection.
    with mini_ceph.cluster(settings=('auth_service_ticket_ttl = 6',)) as c:
        c.user('late', 'allow rw pool=kv namespace=kv')
        with node(c, ack='rados', tiers=tiers(c, 'late')) as a:
            assert a.put('0x10', value('10', 300000)) == 0
            c.command('auth del', entity='client.late')

            def is_shut_out():
                c.kill('osd.0')
                c.revive_osds('osd.0')
                return all(a.put('0xde', b'x') not in (0, MISS) for _ in range(LATES))
            until('it is shut out', is_shut_out)
            a.wait_log('the monitors refuse client.late')
            c.user('late', 'allow rw pool=kv namespace=kv')
            until('it has the new key', lambda: a.put('0x11', b'new key') == 0)
            assert a.get('0x10') == value('10', 300000)
            for i in range(3):
                assert a.put(f'0x12{i:02x}', value(str(i), 300000)) == 0
            a.stop()
            assert a.log.count('the monitors refuse client.late') == 1, a.log


def test_monitor_moved():
    """Its old address is nobody's; the conf file has the new one."""
    with mini_ceph.cluster() as c:
        with node(c, ack='rados', tiers=tiers(c)) as a:
            assert a.put('0x20', b'before') == 0
            c.kill('osd.0')
            c.move_mon()
            c.revive_osds('osd.0')  # it asks the monitor where that is now
            until('it has found them', lambda: a.put('0x21', b'after') == 0)
            assert a.get('0x20') == b'before'


def test_monitor_moved_while_away():
    """The same for a daemon that has connected and knows no pool yet."""
    with mini_ceph.cluster() as c:
        c.user('brief', 'allow rw pool=brief namespace=kv')
        where = tiers(c, 'brief').replace('pool=kv', 'pool=brief')
        with node(c, ack='rados', tiers=where, waits=False) as a:
            a.wait_log('No such file')
            c.kill('osd.0')
            c.move_mon()
            c.revive_osds('osd.0')
            c.pool('brief')
            until('it has found them', lambda: a.put('0x22', b'here') == 0)


def namespaces(a):
    done = a.cli('rpc', 'ns.list')
    assert done.returncode == 0, done.stderr
    return [ns['name'] for ns in json.loads(done.stdout)]


@contextlib.contextmanager
def deleting(a, ns):
    """It is on its way; who asked for it waits."""
    with subprocess.Popen([PEAL, '-u', a.uri, 'rpc', 'ns.delete', f'ns={ns}'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
        try:
            until('it is on its way', lambda: ns not in namespaces(a))
            yield p
        finally:
            p.kill()


def test_deleted_while_frozen():
    """Who removes a namespace waits for its cluster, and nobody else does."""
    other = '  - {name: other, size: 64M}\n'
    with mini_ceph.cluster() as c:
        c.freeze()
        # Its link is connecting, and will be for a minute.
        with node(c, tiers=tiers(c, timeout=60), waits=False, more=other) as a, \
                deleting(a, 'kv') as gone:
            for i in range(10):
                assert namespaces(a) == ['other']
                assert a.cli('-n', '2', 'put', f'0x30{i:02x}', '-', input=b'x').returncode == 0
                assert a.cli('-n', '2', 'get', f'0x30{i:02x}').stdout == b'x'
            assert gone.poll() is None, gone.stdout.read()
            c.thaw()
            assert gone.wait(60) == 0, gone.stdout.read()
            assert namespaces(a) == ['other']
