# SPDX-License-Identifier: Apache-2.0
"""A host that proves who it is (DH-HMAC-CHAP), in Python alone: NVMe Base 2.0, 8.13.5, with the
groups of RFC 7919 as integers. And those that don't, or try to do something else first.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import select
import struct
import tempfile
import threading
import zlib

import peer
import pytest
import tcp_host as t

PEALD = os.environ['PEALD']
PATIENCE = 60
HASHES = {1: 'sha256', 2: 'sha384', 3: 'sha512'}
GROUPS = {1: 2048, 2: 3072, 3: 4096, 4: 6144, 5: 8192}
AUTH_REQUIRED, CONNECT_HOST, FIELD, SGL_TYPE, SGL_LEN = 0x191, 0x184, 2, 0x11, 0xf
(FAILED, NO_PROTOCOL, CONCAT, NO_HASH, NO_GROUP, PAYLOAD, MESSAGE) = range(1, 8)
ONE, BOTH, OTHER = [f'nqn.2024-01.org.example:{name}' for name in ('one', 'both', 'other')]


# ---- arithmetic ----

def euler(bits):
    """The first bits of e after the point, from its series: RFC 7919 makes its primes of them."""
    one = 1 << (bits + 64)
    total, term, n = 0, one, 1
    while term:
        total += term
        term //= n
        n += 1
    return (total >> 64) & ((1 << bits) - 1)


def prime(group):
    """p = 2^b - 2^(b-64) + (e + x) * 2^64 - 1, x from RFC 7919, appendix A."""
    b = GROUPS[group]
    x = {2048: 560316, 3072: 2625351, 4096: 5736041, 6144: 15705020, 8192: 10965728}[b]
    e = 2 * (1 << (b - 130)) + euler(b - 130)
    return (1 << b) - (1 << (b - 64)) + (e + x) * (1 << 64) - 1


PRIMES = {group: prime(group) for group in GROUPS}


def make_secret(kind, n):
    b = secrets.token_bytes(n)
    text = base64.b64encode(b + struct.pack('<I', zlib.crc32(b))).decode()
    return (kind, b), f'DHHC-1:{kind:02}:{text}:'


def response(name, secret, challenge, numbers, label, who, whom):
    kind, key = secret
    if kind:
        key = hmac.digest(key, who.encode() + b'NVMe-over-Fabrics', HASHES[kind])
    text = challenge + numbers + label + who.encode() + b'\0' + whom.encode()
    return hmac.digest(key, text, name)


# ---- a host ----

class Failure1(Exception):
    def __init__(self, why):
        super().__init__(f'Failure1, reason {why}')
        self.why = why


class Login:
    """One queue's. hashes, groups: what it offers; ctrl: the target's secret, if it is to prove
    itself. Each step may be taken alone, and changed on its way by edit(message)."""

    def __init__(self, q, host, secret, ctrl=None, hashes=(1, 2, 3), groups=(0, 1, 2, 3, 4, 5)):
        self.q, self.host, self.secret, self.ctrl = q, host, secret, ctrl
        self.hashes, self.groups = hashes, groups
        self.tid = secrets.randbelow(1 << 16)
        self.chosen = None

    def sqe(self, kind, n, sgl=None, secp=0xe9010100):
        return t.sqe(0x7f, self.q.take_cid(), kind, {10: secp, 11: n}, sgl or t.sgl_transport(n))

    def send(self, msg, edit=None):
        msg = bytearray(msg)
        if edit:
            msg = edit(msg) or msg
        self.q.run(self.sqe(5, len(msg)), bytes(msg), True)

    def receive(self, n=4096):
        msg = self.q.run(self.sqe(6, n))[1]
        if msg[:2] == b'\0\xf1':
            assert len(msg) == 8 and msg[6] == 1
            raise Failure1(msg[7])
        assert msg[0] == 1 and struct.unpack_from('<H', msg, 4)[0] == self.tid
        return msg

    def negotiate(self, edit=None):
        ids = bytes(self.hashes).ljust(30, b'\0') + bytes(self.groups).ljust(30, b'\0')
        self.send(struct.pack('<BBHHBBBBBB', 0, 0, 0, self.tid, 0, 1, 1, 0, len(self.hashes),
                              len(self.groups)) + ids, edit)

    def challenge(self):
        msg = self.receive()
        kind, _, tid, hl, _, h, group, dh_len, seq = struct.unpack_from('<HHHBBBBHI', msg)
        assert kind == 0x101 and tid == self.tid and hl == 16 + 16 * h and seq
        assert h in self.hashes and group in self.groups
        assert dh_len == GROUPS.get(group, 0) // 8 and len(msg) == 16 + hl + dh_len
        self.chosen = (h, group)
        return HASHES[h], hl, group, seq, msg[16:16 + hl], int.from_bytes(msg[16 + hl:], 'big')

    def reply(self, edit=None):
        name, hl, group, seq, c1, other = self.challenge()
        own, shared = b'', None
        if group:
            p, x = PRIMES[group], secrets.randbits(400)
            assert 1 < other < p - 1
            own = pow(2, x, p).to_bytes(GROUPS[group] // 8, 'big')
            shared = hashlib.new(name, pow(other, x, p).to_bytes(GROUPS[group] // 8, 'big'))

        def augmented(c):
            return hmac.digest(shared.digest(), c, name) if shared else c

        c2, s2 = secrets.token_bytes(hl), secrets.randbits(31) + 1 if self.ctrl else 0
        r1 = response(name, self.secret, augmented(c1), struct.pack('<IHB', seq, self.tid, 0),
                      b'HostHost', self.host.hostnqn, self.host.subnqn)
        self.send(struct.pack('<BBHHBBBBHI', 1, 2, 0, self.tid, hl, 0, bool(self.ctrl), 0,
                              len(own), s2) + r1 + c2 + own, edit)
        if not self.ctrl:
            return hl, None
        return hl, response(name, self.ctrl, augmented(c2), struct.pack('<IHB', s2, self.tid, 0),
                            b'Controller', self.host.subnqn, self.host.hostnqn)

    def success(self, hl, want):
        msg = self.receive()
        kind, _, _, got_hl, _, has = struct.unpack_from('<HHHBBB', msg)
        assert kind == 0x301 and got_hl == hl and has == (want is not None)
        assert msg[16:] == (want or b'')
        if want:
            self.send(struct.pack('<BBHH10s', 1, 4, 0, self.tid, b''))

    def run(self):
        self.negotiate()
        self.success(*self.reply())
        return self


def connect(tgt, hostnqn=ONE, **kw):
    """An admin queue that is connected and no more."""
    return t.Host(tgt.addr, tgt.nqn, hostnqn, **kw)


class Target:
    def __init__(self, d, known):
        self.d, self.known = d, known
        line = next(line for line in d.log.splitlines() if ' serves ' in line)
        addr, self.nqn = line.split(' tcp: ')[1].split(' serves ')
        self.addr = (addr.rsplit(':', 1)[0], int(addr.rsplit(':', 1)[1]))


@pytest.fixture(name='tgt', scope='module')
def make_target():
    known, lines = {}, ['# hosts\n']
    for nqn, kind, n in ((ONE, 0, 32), (BOTH, 2, 48), (OTHER, 3, 64)):
        known[nqn], text = make_secret(kind, n)
        known[nqn, 'ctrl'], ctrl = make_secret(1, 32)
        lines.append(f'{nqn} {text} {ctrl if nqn == BOTH else ""}\n')
    with tempfile.NamedTemporaryFile('w') as f:
        f.writelines(lines)
        f.flush()
        with peer.daemon(PEALD, '--dram', '64M', '--ns', 'a=32M,rw', '--tcp', '0', '--reactors',
                         '2', '--tcp-secrets', f.name) as d:
            yield Target(d, known)
    for line in d.log.splitlines():
        assert 'DHHC-1' not in line


def use(tgt, hostnqn=ONE, ctrl=False, login=None, **kw):
    """All of it: both queues, a value, and what they chose."""
    h = connect(tgt, hostnqn, **kw)
    kw = dict(login or {}, ctrl=tgt.known[hostnqn, 'ctrl'] if ctrl else None)
    chosen = [Login(h.admin, h, tgt.known[hostnqn], **kw).run().chosen]
    h.enable()
    q = h.queue()
    chosen.append(Login(q, h, tgt.known[hostnqn], **kw).run().chosen)
    key, value = secrets.token_bytes(8), secrets.token_bytes(20000)
    t.kv(q, t.STORE, key, value)
    assert t.kv(q, t.RETRIEVE, key, room=len(value))[0] == value
    t.kv(q, t.DELETE, key)
    assert h.identify(1)
    h.close()
    return chosen


# ---- who proves it ----

def test_atr(tgt):
    """Connect says that it is required, of both kinds of queue."""
    h = connect(tgt)
    q = t.Queue(tgt.addr).hello()
    dw0 = q.connect(h, 0, size=32)
    assert dw0 & 0x70000 == 0x20000 and dw0 & 0xffff
    q.close()
    h.close()


@pytest.mark.parametrize('name', ['sha256', 'sha384', 'sha512'])
@pytest.mark.parametrize('ctrl', [False, True], ids=['host', 'both'])
def test_hashes(tgt, name, ctrl):
    h = next(i for i in HASHES if HASHES[i] == name)
    chosen = use(tgt, BOTH, ctrl, {'hashes': (h,), 'groups': (0,)})
    assert chosen == [(h, 0)] * 2


@pytest.mark.parametrize('group', GROUPS)
@pytest.mark.parametrize('ctrl', [False, True], ids=['host', 'both'])
def test_groups(tgt, group, ctrl):
    assert use(tgt, BOTH, ctrl, {'groups': (0, group)}) == [(3, group)] * 2


@pytest.mark.parametrize('nqn', [ONE, BOTH, OTHER])
def test_kinds(tgt, nqn):
    """Secrets used as they are, or hashed; what is chosen of all there is."""
    assert use(tgt, nqn) == [(3, 1)] * 2


@pytest.mark.parametrize('shape', [{'hdgst': True}, {'ddgst': True},
                                   {'hdgst': True, 'ddgst': True}], ids=str)
def test_digests(tgt, shape):
    use(tgt, **shape)


def test_pipelined(tgt):
    """Commands right behind the last message, before its answer."""
    h = connect(tgt, BOTH)
    login = Login(h.admin, h, tgt.known[BOTH], tgt.known[BOTH, 'ctrl'])
    login.negotiate()
    login.success(*login.reply())
    h.enable()
    q = h.queue()
    login = Login(q, h, tgt.known[BOTH], tgt.known[BOTH, 'ctrl'])
    login.negotiate()
    login.reply()
    login.receive()
    done = struct.pack('<BBHH10s', 1, 4, 0, login.tid, b'')
    cids = [q.submit(login.sqe(5, 16), done, True)]
    cids += [q.submit(t.key_set(t.sqe(t.EXIST, q.take_cid(), 1), b'none')) for _ in range(50)]
    q.wait(cids[0])
    for cid in cids[1:]:
        with pytest.raises(t.Status) as e:
            q.wait(cid)
        assert e.value.status == 0x87
    h.close()


def test_many(tgt):
    """Six at a time."""
    failed = []

    def one():
        try:
            use(tgt, BOTH, True, {'groups': (3,)})
        except Exception as e:  # pylint: disable=broad-except
            failed.append(e)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# ---- who doesn't ----

def is_closed(q):
    with pytest.raises(t.Closed):
        q.next()


def test_unknown(tgt):
    with pytest.raises(t.Status) as e:
        connect(tgt, 'nqn.2024-01.org.example:unknown')
    assert e.value.status == CONNECT_HOST


def test_discovery(tgt):
    """It needs no secret, and tells those alone that are known."""
    for nqn, nr in ((ONE, 1), ('nqn.2024-01.org.example:unknown', 0)):
        h = t.Host(tgt.addr, t.DISCOVERY, nqn)
        h.set(0x14, 4 << 20 | 6 << 16 | 1)
        assert struct.unpack_from('<Q', h.log(0x70, 1024), 8)[0] == nr
        h.close()


def before(q, h):
    """Nothing else is done before."""
    for b in (t.sqe(6, q.take_cid(), 0, {10: 1}, t.sgl_transport(4096)),
              t.sqe(0x7f, q.take_cid(), 4, {11: 0x1c}), t.sqe(0x7f, q.take_cid(), 0, {11: 0x14}),
              t.sqe(0x18, q.take_cid()), t.sqe(0x0c, q.take_cid()),
              t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: 100}, t.sgl_transport(100)), b'a'),
              t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: 1 << 20}, t.sgl_transport(1 << 20)),
                        b'a')):
        with pytest.raises(t.Status) as e:
            q.run(b)
        assert e.value.status == AUTH_REQUIRED
    assert h


def test_before(tgt):
    h = connect(tgt)
    before(h.admin, h)
    Login(h.admin, h, tgt.known[ONE]).run()
    h.enable()
    q = h.queue()
    before(q, h)
    Login(q, h, tgt.known[ONE]).run()
    t.kv(q, t.STORE, b'before', bytes(100))
    h.close()


def test_other_queue(tgt):
    """An authenticated admin queue is no proof for the others."""
    h = connect(tgt)
    Login(h.admin, h, tgt.known[ONE]).run()
    h.enable()
    q = h.queue()
    login = Login(q, h, tgt.known[OTHER])
    login.negotiate()
    login.reply()
    with pytest.raises(Failure1) as e:
        login.receive()
    assert e.value.why == FAILED
    is_closed(q)
    assert h.identify(1)
    h.close()


def test_io_before_admin(tgt):
    h = connect(tgt)
    with pytest.raises(t.Status):
        h.queue()
    h.close()


def at(off, *values):
    def edit(msg):
        msg[off:off + len(values)] = values
    return edit


def cut(n):
    return lambda msg: msg[:n]


@pytest.mark.parametrize('edit, why', [
    (at(0, 1), MESSAGE), (at(1, 2), MESSAGE), (at(6, 1), CONCAT), (at(7, 0), NO_PROTOCOL),
    (at(7, 2), PAYLOAD), (at(8, 9), NO_PROTOCOL), (at(10, 31), PAYLOAD), (at(11, 255), PAYLOAD),
    (at(12, 0, 4, 255), NO_HASH), (at(42, 6, 7, 8, 9, 10, 255), NO_GROUP), (cut(71), PAYLOAD),
    (cut(8), PAYLOAD), (cut(5), PAYLOAD), (lambda m: m + bytes(8000), PAYLOAD)])
def test_negotiate(tgt, edit, why):
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE])
    login.negotiate(edit)
    with pytest.raises(Failure1) as e:
        login.receive()
    assert e.value.why == why
    is_closed(h.admin)
    h.close()


def zero(msg):
    msg[16 + 128:] = bytes(len(msg) - 16 - 128)


@pytest.mark.parametrize('edit, why', [
    (at(0, 0), MESSAGE), (at(1, 4), MESSAGE), (at(4, 0, 0), PAYLOAD), (at(6, 32), PAYLOAD),
    (at(8, 2), PAYLOAD), (at(10, 0, 0), PAYLOAD), (at(16, 0, 0, 0, 0, 0, 0, 0, 0), FAILED),
    (at(72, 0, 0, 0, 0, 0, 0, 0, 0), FAILED), (cut(399), PAYLOAD), (cut(16), PAYLOAD),
    (zero, PAYLOAD), (at(8, 1, 0, 0, 1, 1), FAILED)])
def test_reply(tgt, edit, why):
    """The last: it asks for a proof of ours, and we have no secret for that."""
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE])
    login.tid |= 1
    login.negotiate()
    login.reply(edit)
    with pytest.raises(Failure1) as e:
        login.receive()
    assert e.value.why == why
    is_closed(h.admin)
    h.close()


def test_failure2(tgt):
    """The host doesn't believe us."""
    h = connect(tgt, BOTH)
    login = Login(h.admin, h, tgt.known[BOTH], tgt.known[BOTH, 'ctrl'])
    login.negotiate()
    login.reply()
    login.receive()
    login.send(struct.pack('<BBHHBB', 0, 0xf0, 0, login.tid, 1, FAILED))
    is_closed(h.admin)
    h.close()


def test_replayed(tgt):
    """What another said a moment ago is worth nothing now."""
    said = []
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE], groups=(0,))
    login.negotiate(said.append)
    login.reply(lambda msg: said.append(bytes(msg)))
    login.receive()
    tid = login.tid
    h.close()
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE], groups=(0,))
    login.tid = tid
    login.negotiate()
    login.challenge()
    login.send(said[1])
    with pytest.raises(Failure1) as e:
        login.receive()
    assert e.value.why == FAILED
    h.close()


def test_order(tgt):
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE])
    with pytest.raises(Failure1) as e:  # nothing was said yet
        login.receive()
    assert e.value.why == MESSAGE
    is_closed(h.admin)
    h.close()
    h = connect(tgt)
    login = Login(h.admin, h, tgt.known[ONE])
    login.negotiate()
    login.negotiate()
    with pytest.raises(Failure1) as e:
        login.receive()
    assert e.value.why == MESSAGE
    h.close()


def test_commands(tgt):
    """The two commands themselves, malformed: an error, and it may go on."""
    h = connect(tgt)
    q = h.admin
    login = Login(q, h, tgt.known[ONE])
    for secp in (0, 0xe8010100, 0xe9000100, 0xe9010000):
        for kind in (5, 6):
            with pytest.raises(t.Status) as e:
                q.run(login.sqe(kind, 16, secp=secp), bytes(16) if kind == 5 else b'')
            assert e.value.status == FIELD
    for kind, n, sgl, data, status in (
            (6, 4096, t.sgl_transport(8192), b'', SGL_LEN), (6, 0, t.sgl_transport(0), b'', FIELD),
            (5, 0, t.sgl_transport(0), b'', FIELD), (5, 100, t.sgl_transport(100), b'', SGL_TYPE)):
        with pytest.raises(t.Status) as e:
            q.run(login.sqe(kind, n, sgl), data)
        assert e.value.status == status
    login.negotiate()
    with pytest.raises(t.Status) as e:
        login.receive(64)  # the challenge has more
    assert e.value.status == FIELD
    login.success(*login.reply())
    h.enable()
    h.close()


@pytest.mark.parametrize('step', range(3))
def test_gone(tgt, step):
    """It hangs up while we compute, or before."""
    for _ in range(20):
        h = connect(tgt, BOTH)
        login = Login(h.admin, h, tgt.known[BOTH], groups=(4,))
        if step > 1:
            login.negotiate()
        elif step:
            h.admin.submit(login.sqe(5, 72), bytes(72), True)
        h.close()
    use(tgt)


def test_down(tgt):
    """The association ends in the turn in which its I/O queues have proved whose they are."""
    for i in range(150):
        h = connect(tgt)
        Login(h.admin, h, tgt.known[ONE], groups=(0,)).run()
        h.enable()
        queues = []
        for _ in range(4):
            q = h.queue()
            login = Login(q, h, tgt.known[ONE], groups=(0,))
            login.negotiate()
            login.reply()
            queues.append((q, q.pdu(t.CMD, bytes(login.sqe(6, 4096)))))
        if i % 2:
            h.admin.s.close()
        else:
            down = t.sqe(0x7f, h.admin.take_cid(), 0, {11: 0x14, 12: 0})  # Property Set: CC 0
            h.admin.s.send(h.admin.pdu(t.CMD, bytes(down)))
        for q, pdu in queues:
            q.s.send(pdu)
        h.close()
    use(tgt)


def test_flood(tgt):
    """What costs us 0.1 s costs nothing and needs no secret: others get in all the same."""
    hosts = []
    for _ in range(48):
        h = connect(tgt, source='127.0.0.1')
        login = Login(h.admin, h, None, groups=(5,))
        login.negotiate()
        hl = login.challenge()[1]
        msg = struct.pack('<BBHHBBBBHI', 1, 2, 0, login.tid, hl, 0, 0, 0, 1024, 0) + bytes(2 * hl)
        hosts.append((h, login, msg + (2).to_bytes(1024, 'big')))
    for h, login, msg in hosts:
        h.admin.submit(login.sqe(5, len(msg)), msg, True)
    use(tgt, OTHER, login={'groups': (0,)}, source='127.0.0.2')
    # It came last, and waited for as many of them as it has messages, at most.
    assert len(select.select([h.admin.s for h, _, _ in hosts], [], [], 0)[0]) < 24
    for h, _, _ in hosts:
        h.close()
    use(tgt)


def test_deadline(tgt):
    """One that doesn't go on is closed; others get in meanwhile."""
    h = connect(tgt)
    h.admin.s.settimeout(PATIENCE)
    for _ in range(10):
        use(tgt)
    is_closed(h.admin)
    h.close()


# ---- the file ----

@pytest.mark.parametrize('text, mode, says', [
    ('nqn.a DHHC-1:00:nothing:\n', 0o600, 'line 1: expected DHHC-1'),
    ('\nuuid\n', 0o600, 'line 2: expected a host NQN'), ('', 0o644, 'expected mode 0600')])
def test_file(text, mode, says):
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        path = f'{folder}/secrets'
        with open(path, 'w', encoding='ascii') as f:
            f.write(text)
        os.chmod(path, mode)
        with contextlib.redirect_stderr(None), pytest.raises(SystemExit) as e:
            peer.Daemon(PEALD, folder, '--dram', '64M', '--tcp', '0', '--tcp-secrets', path)
        assert says in str(e.value) and 'nothing:' not in str(e.value)
