# SPDX-License-Identifier: Apache-2.0
"""The NVMe/TCP target against a host that speaks raw PDUs (tcp_host.py): what sound hosts
do, in every shape that the specification allows. tcp_bad.py has the others.
"""

import contextlib
import struct
import threading

import pytest
import tcp_host as t
# pylint: disable=unused-import # fixtures
from tcp_target import make_rng, make_target, stream, unharmed, wait_queue

# ---- sound hosts ----

SHAPES = [{}, {'hdgst': True}, {'ddgst': True}, {'hdgst': True, 'ddgst': True}, {'maxr2t': 7}]
SIZES = [1, 3, 4096, 8191, 8192, 8193, 65535, 65536, 65537, 131072, 131073, 262144, 1000003]


@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_values(tgt, rng, shape):
    if shape.get('ddgst'):  # a slow digest
        sizes = [n for n in SIZES if n < 300000]
    else:
        sizes = [*SIZES, 9 << 20]
    h = tgt.host(**shape)
    q = h.queue()
    for n in sizes:
        value = rng.randbytes(n)
        key = b'v%d' % n
        t.kv(q, t.STORE, key, value)
        t.kv(q, t.EXIST, key)
        for room in {n, n + 5, max(1, n - 1), 1, n // 2 + 1}:
            got, dw0 = t.kv(q, t.RETRIEVE, key, room=room)
            assert dw0 == n and got == value[:room], (n, room)
        if n <= t.CAPSULE_MAX:  # asked for though it would fit
            t.kv(q, t.STORE, key, value[::-1], capsule=False)
            assert t.kv(q, t.RETRIEVE, key, room=n)[0] == value[::-1]
        t.kv(q, t.DELETE, key)
        with pytest.raises(t.Status) as e:
            t.kv(q, t.RETRIEVE, key, room=n)
        assert e.value.status == 0x87
    h.close()


def test_identify(tgt):
    h = tgt.host()
    ident = h.identify(1)
    assert struct.unpack_from('<H', ident, 78)[0] == h.cntlid and ident[111] == 1
    assert ident[768:1024].split(b'\0')[0].decode() == tgt.nqn
    ioccsz, iorcsz, icdoff = struct.unpack_from('<IIH', ident, 1792)
    assert ioccsz * 16 - 64 == t.CAPSULE_MAX and iorcsz == 1 and icdoff == 0
    assert struct.unpack_from('<I', ident, 536)[0] & 3 == 1
    cap = h.get(0, 1)
    assert cap & 0xffff == 511 and cap >> 37 & 1 and cap >> 43 & 1 and cap >> 32 & 15 == 0
    assert h.get(8) == 0x20000
    for off, size in ((8, 1), (0, 0), (0x24, 0), (0x1000, 0), (0x14, 1)):
        with pytest.raises(t.Status) as e:
            h.get(off, size)
        assert e.value.status == 2
    h.close()


def test_shutdown(tgt):
    """CC.SHN: the I/O queues go, the admin queue says when it is done, and starts anew."""
    h = tgt.host()
    q = h.queue()
    t.kv(q, t.STORE, b'k', b'v')
    h.set(0x14, 4 << 20 | 6 << 16 | 1 << 14 | 6 << 4 | 1)
    while h.get(0x1c) >> 2 & 3 != 2:
        pass
    with pytest.raises(t.Closed):
        t.kv(q, t.EXIST, b'k')
    h.set(0x14, 0)
    h.io.clear()
    h.enable()
    assert t.kv(h.queue(), t.RETRIEVE, b'k', room=10)[0] == b'v'
    h.close()


def test_many_queues(tgt, rng):
    """Several under way on each of several queues; answers come in any order."""
    h = tgt.host()
    queues = [h.queue() for _ in range(6)]
    values = {b'm%d' % i: rng.randbytes(rng.choice([10, 5000, 40000, 300000])) for i in range(60)}
    flying = []
    for i, (key, value) in enumerate(values.items()):
        q = queues[i % 6]
        b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), key)
        flying.append((q, q.submit(b, value)))
    for q, cid in flying:
        q.wait(cid)
    flying = []
    for i, (key, value) in enumerate(values.items()):
        q = queues[i % 5]
        b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: len(value)},
                            t.sgl_transport(len(value))), key)
        flying.append((q, q.submit(b), value))
    for q, cid, value in reversed(flying):
        dw0, got, _ = q.wait(cid)
        assert got == value and dw0 == len(value)
    h.close()


def test_list(tgt):
    """All keys, page by page: the count stands in front, though it is known last."""
    h = tgt.host()
    q = h.queue()
    keys = {b'L%05d' % i for i in range(9000)}
    for key in keys:
        t.kv(q, t.STORE, key, key)
    seen, start, pages = set(), b'', 0
    while True:
        got, _ = t.kv(q, t.LIST, start, room=1 << 20)
        count, at, page = struct.unpack_from('<I', got)[0], 4, []
        for _ in range(count):
            n = struct.unpack_from('<H', got, at)[0]
            page.append(got[at + 2:at + 2 + n])
            at += (2 + n + 3) // 4 * 4
        assert at == len(got)
        pages += 1
        if len(page) <= 1:
            break
        seen |= set(page)
        start = page[-1]
    assert keys <= seen and pages > 2
    for key in keys:
        t.kv(q, t.DELETE, key)
    h.close()


def test_discovery(tgt):
    d = t.Host(tgt.addr, t.DISCOVERY).enable()
    assert d.identify(1)[111] == 2
    whole = d.log(0x70, 4096)
    assert struct.unpack_from('<QQH', whole)[1:] == (1, 0)
    entry = whole[1024:2048]
    assert entry[:3] == bytes([3, 1, 2])
    assert entry[256:512].split(b'\0')[0].decode() == tgt.nqn
    assert entry[512:768].split(b'\0')[0].decode() == tgt.addr[0]
    assert int(entry[32:64].split(b'\0')[0]) == tgt.addr[1]
    for off in (0, 4, 1020, 1024, 2044, 2048, 1 << 20):
        assert d.log(0x70, 1024, off) == (whole + bytes(2048))[off:off + 1024].ljust(1024, b'\0')
    with pytest.raises(t.Status):
        d.identify(2)
    with pytest.raises(t.Status):
        d.queue()
    d.close()


def test_keep_alive(tgt):
    """A host that promised to be heard of and isn't goes, with its queues."""
    a = t.Queue(tgt.addr).hello()
    h = t.Host.__new__(t.Host)
    h.addr, h.subnqn, h.hostnqn, h.kw, h.io = tgt.addr, tgt.nqn, 'nqn.2014-08.org.peal:ka', {}, []
    h.hostid, h.admin = bytes(16), a
    h.cntlid = a.connect(h, 0, size=32, kato=1000) & 0xffff
    h.enable()
    q = h.queue()
    for _ in range(3):
        a.run(t.sqe(0x18, a.take_cid()))
        threading.Event().wait(0.3)
    with pytest.raises(t.Closed):
        a.next()
    with pytest.raises(t.Closed):
        q.next()


def test_async_event(tgt):
    """An AER stays until there is something to say; Abort ends it."""
    h = tgt.host()
    a = h.admin
    cid = a.submit(t.sqe(0x0c, a.take_cid()))
    a.run(t.sqe(0x08, a.take_cid(), 0, {10: cid << 16}))
    with pytest.raises(t.Status) as e:
        a.wait(cid)
    assert e.value.status == 7
    a.submit(t.sqe(0x0c, a.take_cid()))
    h.close()


# ---- bytes in any pieces ----

@pytest.mark.parametrize('shape', [{}, {'hdgst': True, 'ddgst': True}], ids=str)
def test_split_anywhere(tgt, rng, shape):
    """ICReq, Connect and commands with data in one stream that is cut at every byte."""
    h = tgt.host(**shape)
    value = rng.randbytes(100)
    data = struct.pack('<16sH238s256s256s256s', h.hostid, h.cntlid, b'', tgt.nqn.encode(),
                       h.hostnqn.encode(), b'')
    probe = t.Queue(tgt.addr, **shape)
    size = len(stream(probe, data, value, b'k0', 1))
    probe.close()
    cuts = [*range(1, 300), *(rng.randrange(300, size) for _ in range(60)), size - 1]
    for i, cut in enumerate(cuts):
        qid = 1 + i % 100
        key = b'k%d' % i
        q = t.Queue(tgt.addr, **shape)
        b = stream(q, data, value, key, qid)
        q.send(b[:cut])
        if i % 8 == 0:
            threading.Event().wait(0.002)
        q.send(b[cut:])
        kind, _, _, _ = q.next()
        assert kind == t.ICRESP
        q.max_h2c = 4096
        for cid in (1, 2, 3):
            q.data[cid], q.pending[cid] = bytearray(), b''
        q.wait(1)
        q.wait(2)
        with contextlib.suppress(t.Status):  # it may have overtaken the Store
            assert q.wait(3)[1] == value
        assert t.kv(wait_queue(h), t.RETRIEVE, key, room=200)[0] == value
        q.close()
        t.kv(wait_queue(h), t.DELETE, key)
    h.close()


def test_h2c_pieces(tgt, rng):
    """What an R2T asked for comes in PDUs of any size, and those in segments of any size."""
    h = tgt.host()
    q = h.queue()
    value = rng.randbytes(400000)
    b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), b'pieces')
    cid = q.submit(b, value, capsule=False)
    while cid not in q.done:
        kind, _, head, _ = q.next()
        if kind == t.RESP:
            assert struct.unpack_from('<H', head, 22)[0] >> 1 == 0
            break
        assert kind == t.R2T
        _, ttag, off, n = struct.unpack_from('<HHII', head, 8)
        end = off + n
        while off < end:
            m = min(end - off, rng.choice([1, 7, 100, 4096, 30000]))
            raw = q.pdu(t.H2C_DATA, struct.pack('<HHIII', cid, ttag, off, m, 0),
                        value[off:off + m], t.LAST if off + m == end else 0)
            cut = rng.randrange(len(raw))
            q.send(raw[:cut])
            q.send(raw[cut:])
            off += m
    assert t.kv(q, t.RETRIEVE, b'pieces', room=len(value))[0] == value
    h.close()
