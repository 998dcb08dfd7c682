# SPDX-License-Identifier: Apache-2.0
"""An NVMe/TCP host that speaks raw PDUs, from the specifications (NVMe/TCP Transport 1.0c, NVMe
Base 2.0 chapter 6): it shares nothing with the target or libpeal. A test may send what it likes;
what comes back is parsed and its lengths, digests and order are checked.
"""

import socket
import struct
import uuid

ICREQ, ICRESP, H2C_TERM, C2H_TERM, CMD, RESP, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HDGST, DDGST, LAST, SUCCESS = 1, 2, 4, 8
STORE, RETRIEVE, LIST, DELETE, EXIST = 1, 2, 6, 0x10, 0x14
DISCOVERY = 'nqn.2014-08.org.nvmexpress.discovery'
CAPSULE_MAX = 8192


def make_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = make_table()


def crc32c(data):
    crc = 0xffffffff
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xff]
    return struct.pack('<I', crc ^ 0xffffffff)


class Closed(Exception):
    """The target hung up; fes: what its C2HTermReq said, if it sent one."""

    def __init__(self, fes=None, info=None):
        super().__init__(f'FES {fes}, field {info}')
        self.fes, self.info = fes, info


class Status(Exception):
    def __init__(self, status, dw0):
        super().__init__(f'status {status:#x}, DW0 {dw0:#x}')
        self.status, self.dw0 = status, dw0


def sqe(opc, cid, nsid=0, cdw=(), sgl=b'', flags=0x40):
    """cdw: {index: value}; sgl: 16 bytes."""
    b = bytearray(64)
    struct.pack_into('<BBHI', b, 0, opc, flags, cid, nsid)
    b[24:24 + len(sgl)] = sgl
    for i, v in dict(cdw).items():
        struct.pack_into('<I', b, 4 * i, v)
    return b


def sgl_capsule(n):
    return struct.pack('<QI3sB', 0, n, b'', 0x01)


def sgl_transport(n):
    return struct.pack('<QI3sB', 0, n, b'', 0x5a)


def key_set(b, key):
    """The key and its length into an SQE (KV Command Set 1.0c, figure 10)."""
    k = key.ljust(16, b'\0')
    b[8:16], b[56:64] = k[:8], k[8:]
    b[44] = len(key)
    return b


class Queue:
    """One connection. hdgst, ddgst: digests asked for; maxr2t 0's based; source: its address."""

    def __init__(self, addr, hdgst=False, ddgst=False, maxr2t=0, source=''):
        self.s = socket.create_connection(addr, timeout=60, source_address=(source, 0))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.hdgst, self.ddgst, self.maxr2t = hdgst, ddgst, maxr2t
        self.cid = 0
        self.max_h2c = 0
        self.size = 0
        self.data = {}     # CID -> what C2HData brought
        self.pending = {}  # CID -> what an R2T may ask for
        self.done = {}     # CID -> CQE

    # ---- bytes ----

    def send(self, b):
        self.s.sendall(b)

    def read(self, n):
        b = bytearray()
        while len(b) < n:
            try:
                got = self.s.recv(n - len(b))
            except ConnectionResetError:
                got = b''
            if not got:
                raise Closed()
            b += got
        return bytes(b)

    def pdu(self, kind, rest, data=b'', flags=0):
        """A PDU as bytes; `rest` is the header behind its first 8 bytes."""
        hlen = 8 + len(rest)
        hd = 4 if self.hdgst and kind != ICREQ else 0
        dd = 4 if self.ddgst and data else 0
        pdo = hlen + hd if data else 0
        flags |= (HDGST if hd else 0) | (DDGST if dd else 0)
        head = struct.pack('<BBBBI', kind, flags, hlen, pdo, hlen + hd + len(data) + dd) + rest
        return b''.join((head, crc32c(head) if hd else b'', data, crc32c(data) if dd else b''))

    def next(self):
        """(type, flags, header, data) of the next PDU."""
        head = self.read(8)
        kind, flags, hlen, pdo, plen = struct.unpack('<BBBBI', head)
        head += self.read(hlen - 8)
        if kind == C2H_TERM:
            fes, lo, hi = struct.unpack_from('<HHH', head, 8)
            self.read(plen - hlen)
            raise Closed(fes, lo | hi << 16)
        assert bool(flags & HDGST) == (self.hdgst and kind != ICRESP), (kind, flags)
        if flags & HDGST:
            assert self.read(4) == crc32c(head), 'header digest'
        at = hlen + (4 if flags & HDGST else 0)
        data = b''
        if kind == C2H_DATA:
            assert pdo == at, (pdo, at)
            dd = 4 if flags & DDGST else 0
            assert bool(dd) == self.ddgst
            data = self.read(plen - pdo - dd)
            if dd:
                assert self.read(4) == crc32c(data), 'data digest'
        else:
            assert plen == at, (kind, plen, at)
        return kind, flags, head, data

    # ---- the handshake ----

    def icreq(self, pfv=0, hpda=0, digest=None):
        if digest is None:
            digest = (1 if self.hdgst else 0) | (2 if self.ddgst else 0)
        return self.pdu(ICREQ, struct.pack('<HBBI112s', pfv, hpda, digest, self.maxr2t, b''))

    def hello(self):
        self.send(self.icreq())
        kind, _, head, _ = self.next()
        assert kind == ICRESP and len(head) == 128
        pfv, cpda, digest, self.max_h2c = struct.unpack_from('<HBBI', head, 8)
        assert pfv == 0 and cpda == 0 and self.max_h2c >= 4096 and self.max_h2c % 4 == 0
        assert digest == (1 if self.hdgst else 0) | (2 if self.ddgst else 0)
        return self

    def connect(self, host, qid, cntlid=0xffff, size=128, cattr=0, kato=0):
        self.size = size
        data = struct.pack('<16sH238s256s256s256s', host.hostid, cntlid, b'',
                           host.subnqn.encode(), host.hostnqn.encode(), b'')
        b = sqe(0x7f, self.take_cid(), 1, {10: qid << 16, 11: (size - 1) | cattr << 16, 12: kato},
                sgl_capsule(1024))
        return self.run(b, data)[0]

    # ---- commands ----

    def take_cid(self):
        self.cid = (self.cid + 1) & 0xffff
        return self.cid

    def submit(self, b, data=b'', capsule=None):
        """data: from the host; in the capsule if it fits, unless capsule says."""
        cid = struct.unpack_from('<H', b, 2)[0]
        inside = len(data) <= CAPSULE_MAX if capsule is None else capsule
        if data:
            b[24:40] = sgl_capsule(len(data)) if inside else sgl_transport(len(data))
        self.data[cid] = bytearray()
        self.pending[cid] = data
        self.send(self.pdu(CMD, bytes(b), data if inside else b''))
        return cid

    def r2t(self, head):
        cid, ttag, off, n = struct.unpack_from('<HHII', head, 8)
        data = self.pending[cid]
        assert n > 0 and off + n <= len(data), 'R2T beyond the data'
        for at in range(off, off + n, self.max_h2c):
            piece = data[at:min(at + self.max_h2c, off + n)]
            last = LAST if at + len(piece) == off + n else 0
            self.send(self.pdu(H2C_DATA, struct.pack('<HHIII', cid, ttag, at, len(piece), 0), piece,
                               last))

    def step(self):
        kind, flags, head, data = self.next()
        if kind == R2T:
            self.r2t(head)
        elif kind == C2H_DATA:
            cid, _, off, n = struct.unpack_from('<HHII', head, 8)
            assert off == len(self.data[cid]) and n == len(data), 'C2HData out of order'
            self.data[cid] += data
        else:
            assert kind == RESP, kind
            dw0, dw1, head, _, cid, status = struct.unpack_from('<IIHHHH', head, 8)
            self.done[cid] = (dw0, dw1, head, status >> 1 & 0x7ff)
        return kind, flags

    def wait(self, cid):
        while cid not in self.done:
            self.step()
        dw0, dw1, _, status = self.done.pop(cid)
        data = bytes(self.data.pop(cid))
        if status:
            raise Status(status, dw0)
        return dw0, data, dw1

    def run(self, b, data=b'', capsule=None):
        return self.wait(self.submit(b, data, capsule))

    def close(self):
        self.s.close()


class Host:
    """One association: admin queue, enabled controller, I/O queues."""

    def __init__(self, addr, subnqn, hostnqn='nqn.2014-08.org.peal:test', **kw):
        self.addr, self.subnqn, self.hostnqn, self.kw = addr, subnqn, hostnqn, kw
        self.hostid = uuid.uuid4().bytes
        self.admin = Queue(addr, **kw).hello()
        try:
            self.cntlid = self.admin.connect(self, 0, size=32) & 0xffff
        except Exception:
            self.admin.close()
            raise
        self.io = []

    def get(self, off, size=0):
        a = self.admin
        dw0, _, dw1 = a.run(sqe(0x7f, a.take_cid(), 4, {10: size, 11: off}))
        return dw0 | dw1 << 32 if size else dw0

    def set(self, off, val):
        a = self.admin
        a.run(sqe(0x7f, a.take_cid(), 0, {11: off, 12: val}))

    def enable(self, css=6):
        self.set(0x14, 4 << 20 | 6 << 16 | css << 4 | 1)
        while not self.get(0x1c) & 1:
            assert not self.get(0x1c) & 2, 'CFS'
        return self

    def queue(self, qid=None, **kw):
        q = Queue(self.addr, **self.kw).hello()
        try:
            q.connect(self, qid or len(self.io) + 1, self.cntlid, **kw)
        except Exception:
            q.close()
            raise
        self.io.append(q)
        return q

    def identify(self, cns, nsid=0, csi=0, n=4096):
        a = self.admin
        return a.run(sqe(6, a.take_cid(), nsid, {10: cns, 11: csi << 24}, sgl_transport(n)))[1]

    def log(self, lid, n, off=0):
        a = self.admin
        cdw = {10: lid | (n // 4 - 1 & 0xffff) << 16, 11: n // 4 - 1 >> 16, 12: off}
        return a.run(sqe(2, a.take_cid(), 0xffffffff if lid != 0x70 else 0, cdw,
                         sgl_transport(n)))[1]

    def close(self):
        for q in self.io:
            q.close()
        self.admin.close()


def kv(q, opc, key, data=b'', room=0, nsid=1, capsule=None, opts=0):
    """One KV command: its data, or DW0."""
    n = len(data) or room
    b = sqe(opc, q.take_cid(), nsid, {10: n}, sgl_transport(n))
    key_set(b, key)
    b[45] = opts
    dw0, got, _ = q.run(b, data, capsule)
    return (got, dw0) if opc in (RETRIEVE, LIST) else dw0
