# SPDX-License-Identifier: Apache-2.0
"""The NVMe/TCP target against hosts that take what others need, in ways that once worked: each of
these stopped a connection, all of them, or the daemon.
"""

import struct

import tcp_host as t
# pylint: disable=unused-import # fixtures
from tcp_target import io_queue, make_rng, make_target, unharmed


def ex(q, key, off, n):
    """RETRIEVE_EX of n bytes from an offset in units of 4 KiB."""
    return t.key_set(t.sqe(0x82, q.take_cid(), 1, {10: n, 12: off}, t.sgl_transport(n)), key)


def test_data_of_a_capsule(tgt):
    """H2CData for a command whose data came with it: nothing was asked for."""
    for n, off in ((1000, 4096), (131072, 4096), (1000, 0)):
        h, q = io_queue(tgt)
        b = t.key_set(t.sqe(t.STORE, 77, 1, {10: 4096}, t.sgl_capsule(4096)), b'capsule')
        h2c = struct.pack('<HHIII', 77, 0, off, n, 0)
        q.send(q.pdu(t.CMD, bytes(b), bytes(4096)) + q.pdu(t.H2C_DATA, h2c, bytes(n)))
        try:
            while True:
                q.next()
        except t.Closed as e:
            assert e.fes == 1
        h.close()


def test_many_unread(tgt, rng):
    """Many answers that aren't read at first: all of them come in the end."""
    h, q = io_queue(tgt)
    value = rng.randbytes(65536)
    t.kv(q, t.STORE, b'unread', value)
    q = h.queue(size=512)
    cids = []
    for _ in range(500):
        b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: 65536}, t.sgl_transport(65536)),
                      b'unread')
        cids.append(q.submit(b))
    for cid in cids:
        assert q.wait(cid)[1] == value
    h.close()


def test_unaligned(tgt, rng):
    """Ranges that begin in a chunk, many at a time: each has room for a whole chunk or waits."""
    h, q = io_queue(tgt)
    value = rng.randbytes(3 << 20)
    t.kv(q, t.STORE, b'unaligned', value)
    for off, n, times in ((1, len(value), 16), (1, 200 << 10, 32), (15, 65536, 40)):
        cids = [q.submit(ex(q, b'unaligned', off, n)) for _ in range(times)]
        want = value[off * 4096:off * 4096 + n]
        for cid in cids:
            assert q.wait(cid)[1] == want
    h.close()


def test_rests_hold_nothing(tgt, rng):
    """Ranges whose host doesn't read, and one small range of somebody else's."""
    h, q = io_queue(tgt)
    value = rng.randbytes(3 << 20)
    t.kv(q, t.STORE, b'rests', value)
    slow = [io_queue(tgt) for _ in range(2)]
    for _, s in slow:
        for _ in range(100):
            s.submit(ex(s, b'rests', 1, len(value)))
    for _ in range(20):
        cid = q.submit(ex(q, b'rests', 3, 8192))
        assert q.wait(cid)[1] == value[12288:12288 + 8192]
    for one, _ in slow:
        one.close()
    h.close()


def test_unread_small(tgt):
    """Answers without data, by the hundred thousand: whoever doesn't take them is asked no more."""
    h, q = io_queue(tgt)
    bad, s = io_queue(tgt)
    s.s.settimeout(2)
    one = s.pdu(t.CMD, bytes(t.key_set(t.sqe(t.EXIST, 1, 1), b'none'))) * 100
    try:
        for _ in range(4000):
            s.send(one)
    except (TimeoutError, ConnectionError):
        pass
    t.kv(q, t.STORE, b'else', bytes(1000))
    assert t.kv(q, t.RETRIEVE, b'else', room=1000)[1] == 1000
    bad.close()
    h.close()


def test_handshakes(tgt):
    """Connections that only say hello, and one that goes on."""
    idle = []
    for _ in range(40):
        q = t.Queue(tgt.addr)
        q.hello()
        idle.append(q)
    h, q = io_queue(tgt)
    t.kv(q, t.STORE, b'hello', b'there')
    h.close()
    for q in idle:
        q.close()


def test_capsule_behind(tgt, rng):
    """A Store with its data in the capsule between Stores that wait for theirs."""
    h, q = io_queue(tgt)
    large, small = rng.randbytes(300000), rng.randbytes(4096)
    cids = []
    for i in range(40):
        value = large if i % 4 else small
        b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), b'behind%d' % i)
        cids.append(q.submit(b, value))
    for cid in cids:
        q.wait(cid)
    for i in range(40):
        value = large if i % 4 else small
        assert t.kv(q, t.RETRIEVE, b'behind%d' % i, room=len(value))[0] == value
    h.close()


def test_one_r2t(tgt, rng):
    """A host that allows one R2T a command gets one, until it is answered in full."""
    h, q = io_queue(tgt)
    value = rng.randbytes(1 << 20)
    b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), b'r2t')
    cid = q.submit(b, value, capsule=False)
    asked = 0
    while cid not in q.done:
        kind, _, head, _ = q.next()
        if kind == t.RESP:
            break
        _, ttag, off, n = struct.unpack_from('<HHII', head, 8)
        assert off == asked
        asked += n
        for at in range(off, off + n, 4096):
            q.send(q.pdu(t.H2C_DATA, struct.pack('<HHIII', cid, ttag, at, 4096, 0),
                         value[at:at + 4096]))
            if at + 4096 < off + n:  # nobody asks for more meanwhile
                q.s.setblocking(False)
                try:
                    assert not q.s.recv(1)
                except BlockingIOError:
                    pass
                q.s.settimeout(60)
    assert t.kv(q, t.RETRIEVE, b'r2t', room=len(value))[0] == value
    h.close()


def test_deep_stores(tgt, rng):
    """As many Stores as a queue has places: none keeps the data of another out of reach."""
    h = tgt.host()
    q = h.queue(size=(h.get(0, 1) & 0xffff) + 1)
    value = rng.randbytes(20000)
    cids = []
    for i in range(q.size - 1):
        b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), b'deep%d' % (i % 50))
        cids.append(q.submit(b, value, capsule=False))
    for cid in cids:
        q.wait(cid)
    assert t.kv(q, t.RETRIEVE, b'deep7', room=len(value))[0] == value
    h.close()
