# SPDX-License-Identifier: Apache-2.0
"""What a peald can be asked for, each thing by itself; for nth_daemon.py. A client in Python that
shares no code with Peal."""

import json
import mmap
import os
import select
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'peer'))
from vfu_host import (BAR0, CQ, DATA, DEPTH, DMA_MAP, DMA_UNMAP, GET_INFO,  # noqa: E402
                      GET_REGION_INFO, IO_CQ, IO_SQ, IOVA, MEM_BYTES, RESET, SET_IRQS, SQ, VERSION,
                      Host)

KV, RW, BLOCK = 1, 2, 3
VALUE = 64 << 10
NR_VALUES = 200  # more than fits into memory: the first ones lie on the SSD only
WAIT_S = 30
OUT = 0x20000  # where answers land
EXTRA_IOVA = 0x9_0000_0000


class Failed(Exception):
    """The daemon said no, or hung up."""


class Wrong(Exception):
    """What may never be."""


def value(i):
    return b''.join(struct.pack('<I', (16 * i + page + 1) * 2654435761 & 0xffffffff) * 1024
                    for page in range(VALUE // 4096))


def key(i):
    return struct.pack('<QQ', i, ~i & (1 << 64) - 1)


class Subject(Host):
    """A client with an I/O queue, operator; `daemon` says whether it still lives."""

    def __init__(self, folder, daemon, is_attached=True):
        self.folder, self.daemon = folder, daemon
        self.sock = None
        self.turn = 0  # no two commands in a row have the same number
        if is_attached:
            self.open()

    def open(self):
        try:
            super().__init__(f'{self.folder}/cntrl')
            self.sock.settimeout(WAIT_S)
            caps = {'capabilities': {'peal': {'operator': True}}}
            self.call(VERSION, struct.pack('<HH', 0, 1) + json.dumps(caps).encode() + b'\0')
            self.call(GET_INFO, struct.pack('<4I', 16, 0, 0, 0))
            reg, fds = self.call(GET_REGION_INFO, struct.pack('<4I2Q', 4096, 0, BAR0, 0, 0, 0))
            self.map_bells(reg, fds)
            self.call(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, IOVA, MEM_BYTES), [self.fd])
            self.enable()
            self.queues_up()
        except (OSError, AssertionError, IndexError, Failed) as e:
            self.close()
            raise self.failed(e) from e

    def map_bells(self, reg, fds):
        size, off = struct.unpack_from('<QQ', reg, 16)
        area_off, area_size = struct.unpack_from('<QQ', reg, 48)
        assert area_off == 0x1000 and size >= 0x2000
        self.bells = mmap.mmap(fds[0], area_size, offset=off + area_off)
        for fd in fds:
            os.close(fd)

    def queues_up(self):
        size = (DEPTH - 1) << 16 | 1
        for opc, at, dw11 in (5, IO_CQ, 1), (1, IO_SQ, 1 << 16 | 1):
            st = self.command(0, opc, prp=IOVA + at, dw10=size, dw11=dw11)[0]
            if st:
                raise Failed(f'queue: status {st:x}')

    def failed(self, e):
        if isinstance(e, (Failed, Wrong)):
            return e
        if isinstance(e, TimeoutError):
            return Wrong('no answer')
        if self.daemon.process.poll() is not None:
            return Wrong('the daemon has ended')
        return Failed(repr(e))

    def close(self):
        for name in 'mem', 'bells', 'sock':
            if getattr(self, name, None) is not None:
                getattr(self, name).close()
                setattr(self, name, None)
        if getattr(self, 'fd', -1) >= 0:
            os.close(self.fd)
            self.fd = -1

    def message(self, *args, **kw):
        try:
            return self.call(*args, **kw)
        except (OSError, AssertionError) as e:
            raise self.failed(e) from e

    def is_gone(self):
        try:
            return (bool(select.select([self.sock], [], [], 0)[0])
                    and self.sock.recv(1, socket.MSG_PEEK) == b'')
        except OSError:
            return True

    def submit(self, qid, sqe):
        q = self.queues[qid]
        self.mem[q[0] + 64 * q[2]:q[0] + 64 * q[2] + 64] = sqe
        q[2] = (q[2] + 1) % DEPTH
        self.bell(qid, False, q[2])

    def reap(self, qid, cid=None):
        """The next completion; of command cid, where only one is under way."""
        q = self.queues[qid]
        at, turns, now = q[1] + 16 * q[3], 0, time.monotonic()
        end, ask = now + WAIT_S, now + 0.5
        while struct.unpack_from('<H', self.mem, at + 14)[0] & 1 != q[4]:
            os.sched_yield()
            turns += 1
            if turns % 256 == 0 and self.is_gone():
                raise self.failed(Failed('hung up'))
            # By a message, which is an event by itself: not as long as nothing is strange.
            if time.monotonic() > ask:
                ask += 0.5
                if self.has_failed():
                    raise self.failed(Failed('the controller has failed'))
            if time.monotonic() > end:
                raise Wrong('no completion')
        dw0, dw1, head, _, got, st = struct.unpack_from('<IIHHHH', self.mem, at)
        if cid is not None and (got, head) != (cid, q[2]):
            raise Wrong(f'completion of {got}, head {head}; expected {cid}, head {q[2]}')
        q[3] = (q[3] + 1) % DEPTH
        q[4] ^= q[3] == 0
        self.bell(qid, True, q[3])
        return st >> 1 & 0x7ff, dw0, dw1

    def has_failed(self):
        try:
            return self.reg(0x1c) & 2
        except (OSError, AssertionError):
            return True

    def command(self, qid, opc, nsid=0, prp=0, dw10=0, dw11=0, dw12=0, dw13=0, key=bytes(16)):
        """(status, dw0); with PRP1 and as many bytes behind it as it likes: PRP2 is the next."""
        cid = 100 + self.queues[qid][2]
        prp2 = prp + 4096 if prp else 0
        self.submit(qid, struct.pack('<BBHI8sQQQ4I8s', opc, 0, cid, nsid, key[:8], 0, prp, prp2,
                                     dw10, dw11, dw12, dw13, key[8:]))
        return self.reap(qid, cid)[:2]

    def kv(self, opc, i, nbytes=0, nsid=KV, dw11=16, dw12=0, dw13=0):
        """A KV command with its data at OUT, by one SGL data block: (status, dw0)."""
        k = key(i)
        self.turn = (self.turn + 1) % 30000
        self.submit(1, struct.pack('<BBHI8sQQII4I8s', opc, 0x40, 1000 + self.turn, nsid, k[:8], 0,
                                   IOVA + OUT, nbytes, 0, nbytes, dw11, dw12, dw13, k[8:]))
        st, dw0, _ = self.reap(1, 1000 + self.turn)
        return st, dw0

    def good(self, answer):
        if answer[0]:
            raise Failed(f'status {answer[0]:x}')
        return answer[1]

    def put(self, i, nsid=KV):
        self.mem[OUT:OUT + VALUE] = value(i)
        return self.good(self.kv(0x01, i, VALUE, nsid))

    def get(self, i, nsid=KV, opc=0x02):
        self.mem[OUT:OUT + VALUE] = bytes(VALUE)
        size = self.good(self.kv(opc, i, VALUE, nsid))
        got = self.mem[OUT:OUT + VALUE]
        if size != VALUE or got != value(i):
            at = next((n for n in range(VALUE) if got[n] != value(i)[n]), VALUE)
            raise Wrong(f'value {i} has other bytes: size {size}, from {at} on')
        return size

    def fill(self):
        for i in range(NR_VALUES):
            self.put(i)
        self.put(0, RW)

    def look(self):
        """Another client: whatever goes wrong elsewhere, its value is there."""
        try:
            self.get(0, RW)
        except Failed as e:
            raise Wrong(f'another client: {e}') from e


class Op:
    """go(client) answers or raises; before(client) and after(another client) aren't swept."""

    def __init__(self, name, go, before=None, after=None, is_bare=False):
        self.name, self.go, self.before, self.after = name, go, before, after
        self.is_bare = is_bare  # makes its own client


# ---- clients ----

def attach(s):
    s.open()
    s.close()
    return 'attached'


def detach(s):
    s.close()
    return 'gone'


# ---- commands ----

def kv(opc, i=3, nbytes=0, **kw):
    return lambda s: s.good(s.kv(opc, i, nbytes, **kw))


def cold(s):
    """Of the SSD: asked for in turn, so that it isn't in memory."""
    cold.turn = (cold.turn + 1) % 100
    return s.get(cold.turn)


cold.turn = 0


def store_ex(s):
    s.mem[OUT:OUT + 128 + VALUE] = bytes(128) + value(5)
    return s.good(s.kv(0x81, 5, 128 + VALUE))


def match(s):
    for n, i in enumerate((190, 191, 192)):
        s.mem[OUT + 24 * n:OUT + 24 * n + 24] = key(i) + struct.pack('<B7x', 16)
    return s.good(s.kv(0x85, 0, 72, dw11=0)) & 0xffff


def lease(s):
    size = s.good(s.kv(0x8a, 199, 4096))
    low, high = struct.unpack_from('<II', s.mem, OUT)
    ids = struct.unpack_from('<Q', s.mem, OUT)[0]
    if not size:
        raise Failed('no lease')
    st, _ = s.command(1, 0x8c, nsid=KV, dw10=ids & 0xffffffff, dw11=ids >> 32)
    return size, st, low and high and 0


def hint(s):
    """All verbs but those that hold or drop something for long: how many were taken may vary."""
    for n, (i, verb, ms) in enumerate(((1, 1, 0), (2, 1, 50), (1, 2, 0), (199, 4, 20), (199, 5, 0),
                                       (198, 6, 0))):
        s.mem[OUT + 24 * n:OUT + 24 * n + 24] = key(i) + struct.pack('<BBHI', 16, verb, 1, ms)
    n = s.good(s.kv(0x89, 0, 144, dw11=0))
    if n > 6:
        raise Wrong(f'{n} of 6 hints taken')
    return 'hinted'


def conditional(s):
    """Store of a key that is there, if there is none: refused, whatever fails."""
    s.mem[OUT:OUT + VALUE] = bytes(VALUE)
    st, _ = s.kv(0x01, 199, VALUE, dw11=16 | 2 << 8)
    if st == 0:
        raise Wrong('a key that is there was stored as if it were not')
    if st != 0x89:
        raise Failed(f'status {st:x}')
    return s.get(199)


def block(opc, dw12, prp=IOVA + DATA, lba=8, **kw):
    def go(s):
        return s.good(s.command(1, opc, nsid=BLOCK, prp=prp, dw10=lba, dw12=dw12, **kw))
    return go


def block_put(s):
    s.mem[DATA:DATA + 4096] = value(77)[:4096]
    block(1, 7, lba=64)(s)


def block_get(s):
    s.mem[DATA:DATA + 4096] = bytes(4096)
    block(2, 7, lba=64)(s)
    if s.mem[DATA:DATA + 4096] != value(77)[:4096]:
        raise Wrong('blocks have other bytes')
    return 'read'


def block_dsm(s):
    s.mem[DATA:DATA + 16] = struct.pack('<IIQ', 0, 8, 128)
    return s.good(s.command(1, 9, nsid=BLOCK, prp=IOVA + DATA, dw10=0, dw11=4))


def attachment(s):
    """This controller's namespace goes and comes: what comes back is part of the answer."""
    s.mem[DATA:DATA + 4096] = bytes(4096)
    s.good(s.command(0, 6, prp=IOVA + DATA, dw10=1))
    s.mem[DATA:DATA + 4096] = (b'\1\0' + s.mem[DATA + 78:DATA + 80]).ljust(4096, b'\0')
    return [s.command(0, 0x15, nsid=RW, prp=IOVA + DATA, dw10=sel)[0] for sel in (1, 0)]


def admin(opc, nbytes=0, **kw):
    """Its status is part of the answer: not everything is served, and that is an answer too."""
    def go(s):
        st, dw0 = s.command(0, opc, prp=IOVA + DATA if nbytes else 0, **kw)
        return st if opc in (0x02, 0x06) else (st, dw0)
    return go


def namespace(s):
    """One is made, attached, resized and deleted again."""
    s.mem[DATA:DATA + 4096] = struct.pack('<QQ', 1 << 20, 1 << 20).ljust(4096, b'\0')
    nsid = s.good(s.command(0, 0x0d, prp=IOVA + DATA, dw10=0, dw11=1 << 24))
    st = [s.command(0, 0xc0, nsid=nsid, dw10=2 << 20)[0]]
    st.append(s.command(0, 0x0d, nsid=nsid, dw10=1)[0])
    if any(st):
        # What has failed is a part; the rest must work all the same.
        raise Failed(f'statuses {st}')
    return st


def no_namespace(s):
    """Another client takes away what a half may have left."""
    for nsid in range(4, 8):
        s.command(0, 0x0d, nsid=nsid, dw10=1)


def queues(s):
    size = (DEPTH - 1) << 16 | 2
    st = [s.command(0, opc, prp=IOVA + 0x8000 + at, dw10=size, dw11=dw11)[0]
          for opc, at, dw11 in ((5, 0x1000, 1), (1, 0, 2 << 16 | 1))]
    st += [s.command(0, opc, dw10=2)[0] for opc in (0, 4)]
    if st[0] or st[1]:
        raise Failed(f'statuses {st}')
    return st


def trace(s):
    st = [s.command(0, 0xc2, dw11=0xffff, dw12=1)[0], s.kv(0x14, 199)[0],
          s.command(0, 0xc2, prp=IOVA + DATA, dw10=4096, dw12=0)[0],
          s.command(0, 0xc2, dw12=2)[0]]
    if any(st):
        s.command(0, 0xc2, dw12=2)
        raise Failed(f'statuses {st}')
    return st


def record(s):
    s.mem[DATA:DATA + 4096] = bytes(4096)
    assert s.command(0, 6, prp=IOVA + DATA, dw10=1)[0] == 0
    cntlid = struct.unpack_from('<H', s.mem, DATA + 78)[0]
    st = [s.command(0, 0xc2, dw11=cntlid, dw12=3)[0], s.kv(0x14, 199)[0]]
    end = s.command(0, 0xc2, dw11=cntlid, dw12=4)[0]
    for name in os.listdir(s.folder):
        if name.endswith('.rec'):
            os.unlink(f'{s.folder}/{name}')
    if any(st) or end:
        raise Failed(f'statuses {st} {end}')
    return st


def aer(s):
    """Asked for and never answered: it goes with the queue."""
    s.submit(0, struct.pack('<BBHI56x', 0x0c, 0, 77, 0))
    s.submit(0, struct.pack('<BBHI32xI20x', 0x08, 0, 78, 0, 77 << 16))
    return sorted(s.reap(0)[0] for _ in range(2))


# ---- messages ----

def remap(s):
    fd = os.memfd_create('more')
    try:
        os.ftruncate(fd, 1 << 20)
        s.message(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, EXTRA_IOVA, 1 << 20), [fd])
        s.message(DMA_UNMAP, struct.pack('<IIQQ', 24, 0, EXTRA_IOVA, 1 << 20))
    finally:
        os.close(fd)
    return 'mapped'


def irqs(s):
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        s.message(SET_IRQS, struct.pack('<5I', 20, 1 << 2 | 1 << 5, 2, 1, 1), [fd])
        s.message(SET_IRQS, struct.pack('<5I', 20, 1 << 0 | 1 << 5, 2, 0, 0))
    finally:
        os.close(fd)
    return 'set'


def reset(s):
    s.message(RESET)
    try:
        s.enable()
        s.queues_up()
    except (OSError, AssertionError) as e:
        raise s.failed(e) from e
    return s.get(0, RW)


OPS = [
    Op('attach', attach, is_bare=True),
    Op('detach', detach),
    Op('store', lambda s: s.put(4)),
    Op('store_rw', lambda s: s.put(4, RW)),
    Op('retrieve', lambda s: s.get(199)),
    Op('retrieve_cold', cold),
    Op('exist', kv(0x14, 199)),
    Op('delete', kv(0x10, 7), before=lambda s: s.put(7)),
    Op('delete_rw', kv(0x10, 7, nsid=RW), before=lambda s: s.put(7, RW)),
    Op('list', kv(0x06, 0, 4096)),
    Op('flush', lambda s: s.good(s.command(1, 0, nsid=KV))),
    Op('store_ex', store_ex),
    Op('retrieve_ex', lambda s: s.get(199, opc=0x82)),
    Op('match', match),
    Op('lease', lease),
    Op('block_write', block(1, 7)),
    Op('block_read', block_get, before=block_put),
    Op('block_zeroes', block(8, 7, prp=0)),
    Op('block_flush', block(0, 0, prp=0)),
    Op('block_dsm', block_dsm),
    Op('hint', hint),
    Op('store_if_absent', conditional),
] + [Op(f'identify_{cns:02x}', admin(0x06, 4096, nsid=nsid, dw10=cns, dw11=csi << 24))
     for cns, nsid, csi in ((0, BLOCK, 0), (1, 0, 0), (2, 0, 0), (3, KV, 0), (5, KV, 1), (6, 0, 1),
                            (7, 0, 1), (8, KV, 0), (0x10, 0, 0), (0x11, BLOCK, 0), (0x12, KV, 0),
                            (0x13, 0, 0), (0x1c, 0, 0))] + [
    Op(f'log_{lid:02x}', admin(0x02, 512, nsid=0xffffffff, dw10=127 << 16 | lid))
    for lid in (0, 1, 2, 3, 4, 5, 0x70)
] + [Op(f'feature_{fid:02x}', admin(0x0a, 4096, dw10=fid))
     for fid in (1, 2, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0f, 0x16, 0x19, 0x20, 0x81)] + [
    Op('set_feature', admin(0x09, dw10=0x0b, dw11=0x1ff)),
    Op('keep_alive', admin(0x18)),
    Op('abort', admin(0x08, dw10=5 << 16)),
    Op('aer', aer),
    Op('unknown', admin(0xff)),
    Op('queues', queues),
    Op('namespace', namespace, after=no_namespace),
    Op('attachment', attachment),
    Op('trace', trace),
    Op('record', record),
    Op('map', remap),
    Op('irqs', irqs),
    Op('reset', reset),
]
