# SPDX-License-Identifier: Apache-2.0
"""What a host of NVMe/TCP may have while there is another: connections, controllers, commands,
buffers of both directions. In each test one takes all that it is given and gives nothing back, and
another comes and is served, long before the deadline that ends the first.
"""

import contextlib
import select
import socket
import struct
import subprocess

import pytest
import tcp_host as t
# pylint: disable=unused-import # fixtures
from tcp_target import make_rng, make_target, unharmed

PATIENCE = 20  # seconds; a stuck connection lives for 30
ABORT, AER, KEEP_ALIVE = 0x08, 0x0c, 0x18
AERS = 8  # AERL + 1


ELSEWHERE = '127.0.0.2'  # another machine


def greedy(tgt, name='greedy'):
    return t.Host(tgt.addr, tgt.nqn, 'nqn.2024-01.org.example:' + name).enable()


@contextlib.contextmanager
def modest(tgt, **kw):
    """The other host, with a queue on each worker."""
    h = t.Host(tgt.addr, tgt.nqn, 'nqn.2024-01.org.example:modest', **kw).enable()
    queues = [h.queue(), h.queue()]
    for q in queues:
        q.s.settimeout(PATIENCE)
    yield queues
    h.close()


def served(tgt, rng, **kw):
    """Values both ways, larger than a capsule."""
    with modest(tgt, **kw) as queues:
        for q in queues:
            value = rng.randbytes(400000)
            t.kv(q, t.STORE, b'modest', value)
            assert t.kv(q, t.RETRIEVE, b'modest', room=400000)[0] == value


def unsent(h, nr_queues, nr):
    for _ in range(nr_queues):
        q = h.queue()
        for i in range(nr):
            q.send(q.pdu(t.CMD, bytes(t.key_set(t.sqe(t.STORE, i, 1, {10: 1 << 20},
                                                      t.sgl_transport(1 << 20)), b'unsent'))))


def test_unsent(tgt, rng):
    """R2Ts that are never answered hold receive buffers."""
    g = greedy(tgt)
    unsent(g, 16, 20)
    for q in g.io[:4]:
        q.next()  # by now the first of them are asked for
    served(tgt, rng)
    g.close()


def test_unsent_beside(tgt, rng):
    """The same while there is somebody elsewhere: one of the same address as the greedy one."""
    with modest(tgt, source=ELSEWHERE):
        g = greedy(tgt)
        unsent(g, 16, 20)
        for q in g.io[:4]:
            q.next()
        served(tgt, rng)
        g.close()


def unread(h, nr_queues, value, nr):
    for _ in range(nr_queues):
        q = h.queue()
        for i in range(nr):
            q.send(q.pdu(t.CMD, bytes(t.key_set(t.sqe(t.RETRIEVE, i, 1, {10: len(value)},
                                                      t.sgl_transport(len(value))), b'unread'))))


def test_unread(tgt, rng):
    """Values that are never read hold send buffers."""
    g = greedy(tgt)
    value = rng.randbytes(2 << 20)
    t.kv(g.queue(), t.STORE, b'unread', value)
    unread(g, 32, value, 16)
    for q in g.io[1:9]:
        q.s.recv(1, socket.MSG_PEEK)
    served(tgt, rng)
    g.close()


@pytest.mark.parametrize('n', [4096, 4])
def test_unread_logs(tgt, rng, n):
    """Identify data and logs that are never read, by as many names as there are buffers: by their
    bytes, and by their number."""
    hosts = []
    for i in range(16):
        h = t.Host(tgt.addr, tgt.nqn, f'nqn.2024-01.org.example:deaf{i}').enable()
        hosts.append(h)
        h.admin.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread_logs(h.admin, n)
    served(tgt, rng)
    last = t.Host(tgt.addr, tgt.nqn, 'nqn.2024-01.org.example:last').enable()
    last.admin.s.settimeout(PATIENCE)
    assert len({last.identify(1) for _ in range(20)}) == 1
    cids = [last.admin.submit(t.sqe(6, i, 0, {10: 1}, t.sgl_transport(4096))) for i in range(20)]
    assert all(len(last.admin.wait(cid)[1]) == 4096 for cid in cids)
    last.close()
    for h in hosts:
        h.close()


def unread_logs(q, n):
    """Asks for n bytes as often as the target takes it in."""
    q.s.settimeout(0.2)
    what = t.sqe(6, 1, 0, {10: 1}, t.sgl_transport(n))
    if n < 4096:
        what = t.sqe(2, 1, 0xffffffff, {10: 2 | (n // 4 - 1) << 16}, t.sgl_transport(n))
    ask = q.pdu(t.CMD, bytes(what)) * 100
    with contextlib.suppress(TimeoutError, ConnectionError):
        while True:
            q.send(ask)


def test_commands(tgt, rng):
    """As many Stores as there are requests, all of which wait for data."""
    g = greedy(tgt)
    one = t.key_set(t.sqe(t.STORE, 1, 1, {10: 20000}, t.sgl_transport(20000)), b'commands')
    for _ in range(18):
        q = g.queue(size=512)
        q.send(q.pdu(t.CMD, bytes(one)) * 511)
    served(tgt, rng)
    g.close()


def test_commands_behind(tgt, rng):
    """More commands than there are requests, by a host that does all it should: what it may not
    have now it may try again, and none waits for data that stands behind it in its own stream."""
    g = greedy(tgt)
    value = rng.randbytes(20000)
    queues = [g.queue(size=512) for _ in range(18)]
    for i in range(511):
        for q in queues:
            b = t.key_set(t.sqe(t.STORE, i, 1, {10: len(value)}), b'behind%d' % (i % 50))
            q.submit(b, value, capsule=False)
    left = {q.s: q for q in queues}
    while left:  # whoever is asked answers, on any queue
        ready = select.select(list(left), [], [], PATIENCE)[0]
        assert ready, f'{len(left)} queues stand'
        for q in [left[s] for s in ready]:
            q.step()
            if len(q.done) == 511:
                del left[q.s]
    ends = [status for q in queues for _, _, _, status in q.done.values()]
    nr_again = ends.count(0x21)
    assert ends.count(0) == len(ends) - nr_again
    for q in queues:
        q.done.clear()
    assert nr_again < 18 * 511 / 2
    assert t.kv(queues[0], t.RETRIEVE, b'behind7', room=len(value))[0] == value
    g.close()


def test_events(tgt, rng):
    """AERs, of many controllers all that each may have: they wait for ever, and keep no other
    command out, of that host's or of anybody else's."""
    hosts = []
    with pytest.raises(t.Status) as e:
        while len(hosts) < 130:
            hosts.append(greedy(tgt))
            a = hosts[-1].admin
            a.s.settimeout(PATIENCE)
            for _ in range(AERS):
                a.submit(t.sqe(AER, a.take_cid()))
            hosts[-1].identify(1)
    assert e.value.status == 0x181 and len(hosts) > 64
    for h in hosts:  # one more than there may be
        with pytest.raises(t.Status) as e:
            h.admin.run(t.sqe(AER, h.admin.take_cid()))
        assert e.value.status == 0x105
    for h in hosts:  # as many others as the queue has places, twice
        a = h.admin
        for _ in range(2):
            cids = [a.submit(t.sqe(KEEP_ALIVE, a.take_cid())) for _ in range(a.size - AERS - 1)]
            for cid in cids:
                a.wait(cid)
    served(tgt, rng)
    for h in hosts:  # one that is over makes room for another
        a = h.admin
        a.run(t.sqe(ABORT, a.take_cid(), 0, {10: min(a.data) << 16}))
        a.submit(t.sqe(AER, a.take_cid()))
        h.identify(1)
        h.close()


def test_connections(tgt, rng):
    """All that it gets, as queues of one controller after the other."""
    hosts, nr = [], 0
    with pytest.raises(t.Status) as e:
        while True:
            h = greedy(tgt)
            hosts.append(h)
            nr += 1
            for _ in range(60):
                h.queue()
                nr += 1
    assert e.value.status == 0x181 and nr > 64
    served(tgt, rng)
    for h in hosts:
        h.close()


def test_controllers(tgt, rng):
    hosts = []
    with pytest.raises(t.Status) as e:
        for _ in range(130):
            hosts.append(t.Host(tgt.addr, tgt.nqn, 'nqn.2024-01.org.example:greedy'))
    assert e.value.status == 0x181 and len(hosts) > 32
    served(tgt, rng)
    for h in hosts:
        h.close()


def test_names(tgt, rng):
    """One address with many names."""
    hosts = []
    with pytest.raises(t.Status) as e:
        for i in range(100):
            hosts.append(t.Host(tgt.addr, tgt.nqn, f'nqn.2024-01.org.example:name{i}'))
    assert e.value.status == 0x181 and len(hosts) > 16
    for h in hosts:
        h.close()
    served(tgt, rng)


def names(tgt, nr):
    return [greedy(tgt, f'name{i}') for i in range(nr)]


def test_names_controllers(tgt, rng):
    """All controllers that one address gets, under as many names as it may have: one that comes
    from elsewhere gets one."""
    hosts = []
    for i in range(31):  # and the one of make_target()
        with pytest.raises(t.Status) as e:
            while True:
                hosts.append(t.Host(tgt.addr, tgt.nqn, f'nqn.2024-01.org.example:name{i}'))
        assert e.value.status == 0x181
    assert len(hosts) > 64
    served(tgt, rng, source=ELSEWHERE)
    for h in hosts:
        h.close()


def test_names_connections(tgt, rng):
    """... all connections."""
    hosts = []
    for i in range(31):
        with contextlib.suppress(t.Status, t.Closed):  # told, or there is no connection at all
            hosts.append(greedy(tgt, f'name{i}'))
            while True:
                hosts[-1].queue()
    assert sum(1 + len(h.io) for h in hosts) > 128
    served(tgt, rng, source=ELSEWHERE)
    for h in hosts:
        h.close()


def test_names_unsent(tgt, rng):
    """... all receive buffers."""
    hosts = names(tgt, 31)
    for h in hosts:
        unsent(h, 2, 8)
    for h in hosts[:2]:
        for q in h.io:
            q.next()
    served(tgt, rng, source=ELSEWHERE)
    for h in hosts:
        h.close()


def test_names_unread(tgt, rng):
    """... all send buffers."""
    hosts = names(tgt, 31)
    value = rng.randbytes(2 << 20)
    t.kv(hosts[0].queue(), t.STORE, b'unread', value)
    for h in hosts:
        unread(h, 2, value, 16)
    for h in hosts[1:9]:
        for q in h.io:
            q.s.recv(1, socket.MSG_PEEK)
    served(tgt, rng, source=ELSEWHERE)
    for h in hosts:
        h.close()


def test_names_commands(tgt, rng):
    """... all requests."""
    hosts = names(tgt, 31)
    one = t.key_set(t.sqe(t.STORE, 1, 1, {10: 20000}, t.sgl_transport(20000)), b'commands')
    for h in hosts:
        for _ in range(2):
            q = h.queue(size=512)
            q.send(q.pdu(t.CMD, bytes(one)) * 511)
    served(tgt, rng, source=ELSEWHERE)
    for h in hosts:
        h.close()


def test_strangers(tgt):
    """Connections that say nothing: from one address no more than a part of all."""
    idle, nr_taken = [], 0
    for _ in range(200):
        s = socket.create_connection(tgt.addr, timeout=PATIENCE)
        idle.append(s)
    for s in idle[:200]:
        s.sendall(t.Queue.icreq(DUMMY))
        with contextlib.suppress(ConnectionError):
            nr_taken += bool(s.recv(1))
    assert 8 <= nr_taken <= 64
    s = socket.create_connection(tgt.addr, timeout=PATIENCE, source_address=('127.0.0.2', 0))
    s.sendall(t.Queue.icreq(DUMMY))
    assert s.recv(1) == struct.pack('B', t.ICRESP)
    s.close()
    for s in idle:
        s.close()


def test_dead_peers(tgt):
    """A host whose machine is gone is looked for by the kernel."""
    h = tgt.host()
    port = h.admin.s.getsockname()[1]
    timer = ''
    while 'keepalive' not in timer:  # what was sent last may not have been acknowledged
        timer = subprocess.run(['ss', '-Htno', 'dport', '=', f':{port}'], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
    assert 'min' not in timer.split('keepalive,')[1].split(',')[0], timer
    h.close()


class Dummy(t.Queue):
    """For its PDUs only."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.hdgst = self.ddgst = False
        self.maxr2t = 0


DUMMY = Dummy()
