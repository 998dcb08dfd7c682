# SPDX-License-Identifier: Apache-2.0
"""The NVMe/TCP target against a host that speaks raw PDUs (tcp_host.py): what broken and
hostile hosts do: malformed PDUs, wrong digests, Connects that are refused, hosts that go away, that
don't read, that don't send.
"""

import socket
import struct

import peer
import pytest
import tcp_host as t
# pylint: disable=unused-import # fixtures
from tcp_target import PEALD, Target, io_queue, make_rng, make_target, stream, unharmed

# ---- broken hosts ----

def fatal(q, fes, info=None):
    """It says why and hangs up."""
    with pytest.raises(t.Closed) as e:
        while True:
            q.next()
    assert e.value.fes == fes, e.value
    if info is not None:
        assert e.value.info == info
    q.close()


@pytest.mark.parametrize('change,fes,info', [
    ({'pfv': 1}, 6, 8), ({'hpda': 3}, 6, 10), ({'digest': 0x10}, 6, 11)], ids=str)
def test_bad_icreq(tgt, change, fes, info):
    q = tgt.raw()
    q.send(q.icreq(**change))
    fatal(q, fes, info)


@pytest.mark.parametrize('raw,fes', [
    (struct.pack('<BBBBI', 4, 0, 72, 0, 72) + bytes(64), 2),      # a command first
    (struct.pack('<BBBBI', 0, 0, 127, 0, 128) + bytes(120), 1),
    (struct.pack('<BBBBI', 0, 0, 128, 0, 129) + bytes(121), 1),
    (struct.pack('<BBBBI', 0, 1, 128, 0, 128) + bytes(120), 1),
    (struct.pack('<BBBBI', 99, 0, 128, 0, 128) + bytes(120), 1),
    (b'GET / HTTP/1.1\r\n\r\n', 1),
    (struct.pack('<BBBBI', 1, 0, 128, 0, 128) + bytes(120), 1)], ids=range(7))
def test_bad_first(tgt, raw, fes):
    q = tgt.raw()
    q.send(raw)
    fatal(q, fes)


@pytest.mark.parametrize('raw,fes,info', [
    (struct.pack('<BBBBI', 0, 0, 128, 0, 128) + bytes(120), 2, None),  # ICReq again
    (struct.pack('<BBBBI', 5, 0, 24, 0, 24) + bytes(16), 1, 0),        # ours, not a host's
    (struct.pack('<BBBBI', 4, 0, 64, 0, 72) + bytes(64), 1, 2),
    (struct.pack('<BBBBI', 4, 0, 72, 0, 71) + bytes(64), 1, 4),
    (struct.pack('<BBBBI', 4, 0, 72, 72, 72 + 8193) + bytes(64), 1, 4),
    (struct.pack('<BBBBI', 4, 0, 72, 73, 173) + bytes(165), 1, 3),
    (struct.pack('<BBBBI', 4, 0, 72, 0, 0xffffffff) + bytes(64), 1, 4),
    (struct.pack('<BBBBI', 4, 2, 72, 72, 176) + bytes(168), 1, 1),     # a digest not agreed on
    (struct.pack('<BBBBI', 6, 4, 24, 24, 124) + struct.pack('<HHIII', 1, 0xffff, 0, 100, 0) +
     bytes(100), 1, 10),                                               # a tag of nobody's
    (struct.pack('<BBBBI', 6, 4, 24, 0, 24) + bytes(16), 1, 3)], ids=range(10))
def test_bad_pdu(tgt, raw, fes, info):
    h, q = io_queue(tgt)
    q.send(raw)
    fatal(q, fes, info)
    h.close()


@pytest.mark.parametrize('field,add', [('off', 1), ('off', -1), ('len', 1), ('len', 4096),
                                       ('cid', 1), ('ttag', 1)])
def test_bad_h2c(tgt, field, add):
    """Data that isn't what the R2T asked for."""
    h, q = io_queue(tgt)
    n = 20000
    b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: n}), b'h2c')
    cid = q.submit(b, bytes(n), capsule=False)
    kind, _, head, _ = q.next()
    assert kind == t.R2T
    v = dict(zip(('cid', 'ttag', 'off', 'len'), struct.unpack_from('<HHII', head, 8)))
    assert v['cid'] == cid
    want = v['len'] + (add if field == 'len' else 0)
    v[field] = v[field] + add & 0xffffffff
    q.send(q.pdu(t.H2C_DATA, struct.pack('<HHIII', v['cid'], v['ttag'], v['off'], want, 0),
                 bytes(want), t.LAST))
    fatal(q, 4 if field in ('off', 'len') else 1)
    h.close()


def test_bad_header_digest(tgt):
    h, q = io_queue(tgt, hdgst=True)
    raw = bytearray(q.pdu(t.CMD, bytes(t.key_set(t.sqe(t.EXIST, 9, 1), b'x'))))
    raw[20] ^= 1
    q.send(raw)
    fatal(q, 3)
    h.close()


@pytest.mark.parametrize('capsule', [True, False])
def test_bad_data_digest(tgt, capsule):
    """Not fatal: that command fails, to be tried again, and nothing is stored."""
    h, q = io_queue(tgt, ddgst=True)
    value, key = b'wrong' * 100, b'ddgst%d' % capsule
    b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), key)
    b[24:40] = t.sgl_capsule(len(value)) if capsule else t.sgl_transport(len(value))
    cid = struct.unpack_from('<H', b, 2)[0]
    q.data[cid], q.pending[cid] = bytearray(), value
    raw = bytearray(q.pdu(t.CMD, bytes(b), value if capsule else b''))
    if not capsule:
        q.send(raw)
        _, _, head, _ = q.next()
        _, ttag, off, n = struct.unpack_from('<HHII', head, 8)
        raw = bytearray(q.pdu(t.H2C_DATA, struct.pack('<HHIII', cid, ttag, off, n, 0), value,
                              t.LAST))
    raw[-100] ^= 1
    q.send(raw)
    with pytest.raises(t.Status) as e:
        q.wait(cid)
    assert e.value.status == 0x22
    with pytest.raises(t.Status) as e:
        t.kv(q, t.RETRIEVE, key, room=1000)
    assert e.value.status == 0x87
    t.kv(q, t.STORE, key, value)
    assert t.kv(q, t.RETRIEVE, key, room=1000)[0] == value
    h.close()


@pytest.mark.parametrize('sgl,status', [
    (struct.pack('<QI3sB', 0, 100, b'', 0x5a), 0x0f),   # data in the capsule, not said so
    (struct.pack('<QI3sB', 0, 99, b'', 0x01), 0x0f),
    (struct.pack('<QI3sB', 4, 100, b'', 0x01), 0x16),   # an offset
    (struct.pack('<QI3sB', 0, 100, b'', 0x00), 0x11),
    (struct.pack('<QI3sB', 0, 100, b'', 0x30), 0x11),
    (struct.pack('<QI3sB', 0, 100, b'', 0xff), 0x11)], ids=range(6))
def test_bad_sgl(tgt, sgl, status):
    h, q = io_queue(tgt)
    b = t.key_set(t.sqe(t.STORE, 7, 1, {10: 100}, sgl), b'sgl')
    q.data[7] = bytearray()
    q.send(q.pdu(t.CMD, bytes(b), bytes(100)))
    with pytest.raises(t.Status) as e:
        q.wait(7)
    assert e.value.status == status
    h.close()


@pytest.mark.parametrize('opc,n,room', [(t.STORE, 1000, 999), (t.RETRIEVE, 1001, 1000)])
def test_sgl_shorter(tgt, opc, n, room):
    """More data than the SGL has."""
    h, q = io_queue(tgt)
    t.kv(q, t.STORE, b'short', bytes(2000))
    b = t.key_set(t.sqe(opc, q.take_cid(), 1, {10: n}, t.sgl_transport(room)), b'short')
    with pytest.raises(t.Status) as e:
        q.run(b, bytes(room) if opc == t.STORE else b'', capsule=True)
    assert e.value.status == 0x0f
    h.close()


def test_opcodes(tgt, rng):
    """Every opcode gets an answer: there is one for each command."""
    h, q = io_queue(tgt)
    for opc in [n for n in range(256) if n != 0x7f]:
        b = t.sqe(opc, q.take_cid(), 1, {10: 64}, t.sgl_transport(64))
        b[8:16], b[44] = rng.randbytes(8), 8
        try:
            q.run(b, bytes(64) if opc & 3 == 1 else b'')
        except t.Status as e:
            assert e.status
    for opc in range(256):
        if opc in (0x0c, 0x7f):  # an AER waits
            continue
        try:
            h.admin.run(t.sqe(opc, h.admin.take_cid(), 0, {}, t.sgl_transport(64)),
                        bytes(64) if opc & 3 == 1 else b'')
        except t.Status as e:
            assert e.status
    h.close()


def test_too_many(tgt):
    """More commands than the queue has places."""
    h = tgt.host()
    q = h.queue(size=8)
    b = [t.key_set(t.sqe(t.STORE, i, 1, {10: 20000}, t.sgl_transport(20000)), b'many')
         for i in range(20)]
    q.send(b''.join(q.pdu(t.CMD, bytes(x)) for x in b))
    fatal(q, 2)
    h.close()


# ---- Connect ----

def refused(fn, status, dw0=None):
    with pytest.raises(t.Status) as e:
        fn()
    assert e.value.status == status, e.value
    if dw0 is not None:
        assert e.value.dw0 == dw0


def test_connect_refused(tgt):
    def admin(size=32, cntlid=0xffff, nqn=tgt.nqn, qid=0):
        h = t.Host.__new__(t.Host)
        h.subnqn, h.hostnqn, h.hostid = nqn, 'nqn.2014-08.org.peal:x', bytes(16)
        q = t.Queue(tgt.addr).hello()
        try:
            q.connect(h, qid, cntlid, size)
        finally:
            q.close()

    refused(lambda: admin(nqn='nqn.2014-08.org.other'), 0x182, 1 << 16 | 256)
    refused(lambda: admin(nqn=''), 0x182, 1 << 16 | 256)
    refused(lambda: admin(cntlid=1), 0x182, 1 << 16 | 16)
    refused(lambda: admin(size=31), 0x182, 44)
    refused(lambda: admin(size=5000), 0x182, 44)
    refused(lambda: admin(qid=1, cntlid=0xfff0), 0x182, 1 << 16 | 16)
    refused(lambda: admin(qid=500), 0x182, 42)
    h = tgt.host()
    h.queue(qid=1)
    refused(lambda: h.queue(qid=1), 0x181)
    h.io.pop()
    refused(lambda: h.queue(qid=129), 0x182)
    mine, h.hostid = h.hostid, bytes(16)
    refused(lambda: h.queue(qid=2), 0x182, 1 << 16)
    h.hostid, h.hostnqn = mine, 'nqn.2014-08.org.peal:another'
    refused(lambda: h.queue(qid=2), 0x182, 1 << 16 | 512)
    h.close()


def test_hosts(rng):
    """Hosts that are named may attach; others aren't told of the subsystem, either."""
    names = ['nqn.2014-08.org.nvmexpress:uuid:1', 'nqn.2024-01.org.example:a']
    with peer.daemon(PEALD, '--dram', '64M', '--ns', 'a=48M,rw', '--tcp', '0', '--tcp-hosts',
                     ','.join(names)) as d:
        tgt = Target(d)
        for name in names:
            h = t.Host(tgt.addr, tgt.nqn, name).enable()
            t.kv(h.queue(), t.STORE, b'k', rng.randbytes(9000))
            found = t.Host(tgt.addr, t.DISCOVERY, name).enable()
            assert struct.unpack_from('<Q', found.log(0x70, 4096), 8)[0] == 1
            found.close()
            h.close()
        for name in ('nqn.2024-01.org.example:ab', 'nqn.2024-01.org.example:', names[0] + ',',
                     ','.join(names), 'nqn.2024-01.org.example:A', names[1][1:]):
            refused(lambda name=name: t.Host(tgt.addr, tgt.nqn, name), 0x184)
            found = t.Host(tgt.addr, t.DISCOVERY, name).enable()
            log = found.log(0x70, 4096)
            assert struct.unpack_from('<QQ', log) == (1, 0) and not any(log[16:])
            found.close()


def test_not_enabled(tgt):
    """I/O queues come after CC.EN, and what isn't Fabrics has to wait for it, too."""
    h = t.Host(tgt.addr, tgt.nqn)
    refused(h.queue, 0x0c)
    refused(lambda: h.identify(1), 0x0c)
    h.enable()
    h.identify(1)
    h.close()


# ---- hosts that go away ----

def test_gone_anywhere(tgt, rng):
    """Hung up after every number of bytes of a conversation, politely or by a reset."""
    h = tgt.host()
    data = struct.pack('<16sH238s256s256s256s', h.hostid, h.cntlid, b'', tgt.nqn.encode(),
                       h.hostnqn.encode(), b'')
    whole = stream(t.Queue(tgt.addr), data, rng.randbytes(300), b'gone', 1)
    for cut in sorted(rng.sample(range(len(whole)), 300)):
        q = tgt.raw()
        if rng.random() < .5:
            q.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        q.send(whole[:cut])
        q.close()
    h.close()


def test_gone_in_waves(tgt, rng):
    """With values on their way in both directions; with the admin queue first or last."""
    value = rng.randbytes(3 << 20)
    h, q = io_queue(tgt)
    t.kv(q, t.STORE, b'wave', value)
    h.close()
    for i in range(30):
        h = tgt.host()
        queues = [h.queue() for _ in range(3)]
        for q in queues:
            for _ in range(4):
                b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: len(value)},
                                    t.sgl_transport(len(value))), b'wave')
                q.submit(b)
                b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)},
                                    t.sgl_transport(len(value))), b'lost%d' % i)
                q.submit(b)
            for _ in range(rng.randrange(4)):
                kind, _, head, _ = q.next()
                if kind == t.R2T:
                    cid, ttag, off, n = struct.unpack_from('<HHII', head, 8)
                    q.send(q.pdu(t.H2C_DATA, struct.pack('<HHIII', cid, ttag, off, n // 2, 0),
                                 bytes(n // 2)))
        order = [h.admin, *queues]
        rng.shuffle(order)
        for q in order:
            q.close()
    h, q = io_queue(tgt)
    assert t.kv(q, t.RETRIEVE, b'wave', room=len(value))[0] == value
    for i in range(30):
        refused(lambda i=i: t.kv(q, t.RETRIEVE, b'lost%d' % i, room=10), 0x87)
    h.close()


def test_slow_reader(tgt, rng):
    """Who doesn't read keeps no more than its share; the others are served meanwhile."""
    value = rng.randbytes(4 << 20)
    h, q = io_queue(tgt)
    t.kv(q, t.STORE, b'slow', value)
    slow = [io_queue(tgt) for _ in range(12)]
    for _, s in slow:
        for _ in range(20):
            b = t.key_set(t.sqe(t.RETRIEVE, s.take_cid(), 1, {10: len(value)},
                                t.sgl_transport(len(value))), b'slow')
            s.submit(b)
    for _ in range(20):
        assert t.kv(q, t.RETRIEVE, b'slow', room=len(value))[0] == value
    one, s = slow[0]
    while len(s.done) < 20:
        s.step()
    assert all(bytes(d) == value for d in s.data.values())
    for one, _ in slow:
        one.close()
    h.close()


def test_silent_store(tgt):
    """R2Ts that are never answered hold buffers; others still store."""
    h, q = io_queue(tgt)
    silent = [io_queue(tgt) for _ in range(4)]
    for _, s in silent:
        for i in range(20):
            b = t.key_set(t.sqe(t.STORE, i, 1, {10: 1 << 20}, t.sgl_transport(1 << 20)), b'sil')
            s.data[i] = bytearray()
            s.send(s.pdu(t.CMD, bytes(b)))
        s.next()
    t.kv(q, t.STORE, b'small', bytes(100))
    t.kv(q, t.STORE, b'large', bytes(50000), capsule=False)
    for one, _ in silent:
        one.close()
    h.close()


def test_daemon_stops(rng):
    """With hosts attached and data under way."""
    with peer.daemon(PEALD, '--dram', '64M', '--ns', 'a=48M,rw', '--tcp', '0') as d:
        tgt = Target(d)
        h = tgt.host()
        q = h.queue()
        value = rng.randbytes(1 << 20)
        t.kv(q, t.STORE, b'k', value)
        for _ in range(8):
            b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: 1 << 20},
                                t.sgl_transport(1 << 20)), b'k')
            q.submit(b)
        tgt.raw().send(b'\0')
        t.Host(tgt.addr, t.DISCOVERY)
