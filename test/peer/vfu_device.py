#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A vfio-user NVMe-KV device in plain Python, written from the specifications alone.

    vfu_device.py SOCKET [FAULT...]     listens, prints SOCKET, serves until its input ends

The counterpart of vfu_host.py, and like it without a line of the daemon's or the library's: a
second device to check hosts against. It is slow and right, except for the faults that it is told
to have, each of which is one that hosts have met (or could) in one layer between them and their
values; FAULTS lists them. One thread; several clients, values are shared and kept between them.

vfio-user: QEMU's docs/interop/vfio-user.rst. NVMe: Base 2.0. Commands: KV Command Set 1.0c.
"""

import array
import collections
import ctypes
import json
import mmap
import os
import select
import socket
import struct
import sys
import time

FAULTS = {
    'not-vfio-user': 'answers with something else',
    'major-1': 'speaks another version',
    'class': 'is no NVMe device by its PCI class',
    'mqes-255': 'queues of 256 at most',
    'aqa-stuck': 'AQA has a stuck bit',
    'rdy-stuck': 'never becomes ready',
    'no-kv-css': 'CAP.CSS has no I/O command sets',
    'overlap': 'takes a DMA map over another',
    'unmap-late': 'goes on using what was unmapped',
    'no-bell-map': 'shows no doorbells to map',
    'dead-bells': 'shows another page than the one that it looks at',
    'admin-dead': 'never looks at the admin queue',
    'no-namespace': 'has no KV namespace',
    'io-dead': 'never looks at an I/O queue',
    'zero-sqes': 'fetches I/O commands as zeros',
    'stale-sqes': 'fetches an I/O command of one round before, now and then',
    'torn': 'now and then the first half of a CQE is what it was before',
    'torn-late': 'now and then the first half of a CQE comes after the second',
    'sq-head': 'CQEs say a wrong SQ head',
    'wrong-value': 'one bit of a value comes back wrong',
    'other-value': 'the value of another key comes back',
    'no-length': 'Retrieve does not tell the size',
    'prp-offset': "ignores PRP1's offset",
    'prp-list': 'takes a PRP list for one stretch behind its first entry',
    'prp-chain': 'does not follow a PRP list into its second page',
    'sgl-segment': 'reads an SGL segment backwards',
    'queues-stay': 'does not delete queues',
}

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO, IO_FDS, IRQ_INFO = 1, 2, 3, 4, 5, 6, 7
SET_IRQS, REGION_READ, REGION_WRITE, RESET = 8, 9, 10, 13
BAR0, CONFIG, MSIX = 0, 7, 2
BAR0_BYTES, BELLS, PAGE = 0x2000, 0x1000, 4096
VECTORS = 8
VALUE_MAX = 1 << 20
VID = 0x5045

OK, BAD_OPCODE, BAD_FIELD, BAD_DATA, BAD_NS = 0x00, 0x01, 0x02, 0x04, 0x0b
BAD_SIZE, BAD_KEY, NOT_FOUND, EXISTS = 0x85, 0x86, 0x87, 0x89
BAD_CQ, BAD_QID = 0x100, 0x101


class Refused(Exception):
    """The errno of a message, or the status of a command."""


class Map:
    def __init__(self, addr, size, fd, offset):
        self.addr, self.size = addr, size
        self.mem = mmap.mmap(fd, size, offset=offset)


class Queue:
    def __init__(self, addr, size, cq=None, vector=None):
        self.addr, self.size, self.cq, self.vector = addr, size, cq, vector
        self.head = self.tail = 0
        self.phase, self.is_old = 1, []


class Client:
    """One connection: one controller."""

    def __init__(self, device, sock):
        self.device, self.sock, self.faults = device, sock, device.faults
        self.rx, self.fds, self.maps = b'', [], []
        self.irqs = {}
        self.bar0 = os.memfd_create('bar0')
        os.ftruncate(self.bar0, BAR0_BYTES)
        self.bells = mmap.mmap(self.bar0, PAGE, offset=BELLS)
        self.shown = self.bar0
        if 'dead-bells' in self.faults:
            self.shown = os.memfd_create('not-bar0')
            os.ftruncate(self.shown, BAR0_BYTES)
        self.nr_cqes = 0
        self.reset()

    def reset(self):
        self.regs = bytearray(0x1000)
        mqes = 255 if 'mqes-255' in self.faults else 4095
        css = 1 if 'no-kv-css' in self.faults else 0x41
        struct.pack_into('<QI', self.regs, 0, mqes | 1 << 16 | 20 << 24 | css << 37, 0x20000)
        self.sqs, self.cqs = {}, {}
        self.late = []
        self.bells[:] = bytes(PAGE)

    def close(self):
        self.sock.close()
        for fd in self.fds + list(self.irqs.values()) + [self.bar0]:
            os.close(fd)
        if self.shown != self.bar0:
            os.close(self.shown)

    # ---- the socket ----

    def receive(self):
        """What has come; False at the end."""
        data, anc, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4 * 16))
        if not data:
            return False
        for _, _, raw in anc:
            fds = array.array('i')
            fds.frombytes(raw[:len(raw) // 4 * 4])
            self.fds += fds
        self.rx += data
        while len(self.rx) >= 16:
            mid, cmd, size, flags, _ = struct.unpack_from('<HHIII', self.rx)
            if size < 16 or size > 65536:
                return False
            if len(self.rx) < size:
                break
            payload, self.rx = self.rx[16:size], self.rx[size:]
            self.message(mid, cmd, flags, payload)
        return True

    def message(self, mid, cmd, flags, payload):
        fds, self.fds = self.fds, []
        out, err = [], 0
        if 'not-vfio-user' in self.faults:
            self.sock.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n')
            return
        try:
            reply = self.answer(cmd, payload, fds, out)
        except Refused as e:
            reply, err = b'', e.args[0]
        except (struct.error, OSError, ValueError):
            reply, err = b'', 22
        for fd in fds:
            os.close(fd)
        if flags & 0x10:
            return
        head = struct.pack('<HHIII', mid, cmd, 16 + len(reply), 0x21 if err else 1, err)
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', out))] if out else []
        self.sock.sendmsg([head + reply], anc)

    def answer(self, cmd, p, fds, out):
        """The reply's payload; takes from fds what it keeps."""
        if cmd == VERSION:
            major = 1 if 'major-1' in self.faults else 0
            caps = {'capabilities': {'max_msg_fds': 8, 'max_dma_maps': 64, 'pgsizes': 4096}}
            return struct.pack('<HH', major, 1) + json.dumps(caps).encode() + b'\0'
        if cmd == GET_INFO:
            return struct.pack('<4I', 16, 3, 9, 5)
        if cmd == REGION_INFO:
            return self.region_info(struct.unpack_from('<4I', p)[2], out)
        if cmd == IRQ_INFO:
            index = struct.unpack_from('<4I', p)[2]
            return struct.pack('<4I', 16, 1, index, VECTORS if index == MSIX else 0)
        if cmd == SET_IRQS:
            return self.set_irqs(p, fds)
        if cmd in (REGION_READ, REGION_WRITE):
            off, region, count = struct.unpack_from('<QII', p)
            if cmd == REGION_READ:
                return p[:16] + self.read(region, off, count)
            self.write(region, off, p[16:16 + count])
            return p[:16]
        if cmd == DMA_MAP:
            return self.dma_map(p, fds)
        if cmd == DMA_UNMAP:
            return self.dma_unmap(p)
        if cmd == RESET:
            self.reset()
            return b''
        raise Refused(95)

    def region_info(self, index, out):
        size = {BAR0: BAR0_BYTES, CONFIG: 4096}.get(index, 0)
        flags = 3 if size else 0
        if index != BAR0 or 'no-bell-map' in self.faults:
            return struct.pack('<4I2Q', 32, flags, index, 0, size, 0)
        out.append(self.shown)
        info = struct.pack('<4I2Q', 64, flags | 4 | 8, index, 32, size, 0)
        return info + struct.pack('<HHIIIQQ', 1, 1, 0, 1, 0, BELLS, PAGE)

    def set_irqs(self, p, fds):
        _, flags, index, start, count = struct.unpack_from('<5I', p)
        if index != MSIX or start + count > VECTORS:
            raise Refused(22)
        for v in range(start, start + count):
            if v in self.irqs:
                os.close(self.irqs.pop(v))
            if flags & 4 and fds:
                self.irqs[v] = fds.pop(0)
        return b''

    # ---- registers and configuration space ----

    def read(self, region, off, count):
        if region == CONFIG:
            space = bytearray(4096)
            code = 0x020000 if 'class' in self.faults else 0x010802
            struct.pack_into('<HHHHI', space, 0, VID, 0x4b56, 0, 0, code << 8)
            return bytes(space[off:off + count])
        if region != BAR0 or off + count > BAR0_BYTES:
            raise Refused(22)
        if off >= BELLS:
            return self.bells[off - BELLS:off - BELLS + count]
        return bytes(self.regs[off:off + count])

    def write(self, region, off, data):
        if region == CONFIG:
            return
        if region != BAR0 or off + len(data) > BAR0_BYTES:
            raise Refused(22)
        if off >= BELLS:
            self.bells[off - BELLS:off - BELLS + len(data)] = data
            return
        for at, v in enumerate(data, off):
            if at in range(0x24, 0x38) or at in range(0x14, 0x18):
                self.regs[at] = v
        if 'aqa-stuck' in self.faults:
            self.regs[0x24] |= 4
        if off <= 0x14 < off + len(data):
            self.enable(self.regs[0x14] & 1)

    def enable(self, on):
        aqa, asq, acq = struct.unpack_from('<IQQ', self.regs, 0x24)
        if on and 0 not in self.cqs:
            self.bells[:] = bytes(PAGE)
            self.cqs = {0: Queue(acq, (aqa >> 16 & 0xfff) + 1, vector=0)}
            self.sqs = {0: Queue(asq, (aqa & 0xfff) + 1, self.cqs[0])}
        elif not on:
            self.sqs, self.cqs = {}, {}
        if 'rdy-stuck' not in self.faults:
            self.regs[0x1c] = on

    # ---- memory ----

    def dma_map(self, p, fds):
        _, _, offset, addr, size = struct.unpack_from('<IIQQQ', p)
        if not size or addr % PAGE or size % PAGE or len(fds) != 1:
            raise Refused(22)
        if 'overlap' not in self.faults:
            if any(addr < m.addr + m.size and m.addr < addr + size for m in self.maps):
                raise Refused(17)
        self.maps.append(Map(addr, size, fds[0], offset))
        return b''

    def dma_unmap(self, p):
        _, _, addr, size = struct.unpack_from('<IIQQ', p)
        left = [m for m in self.maps if (m.addr, m.size) != (addr, size)]
        if len(left) == len(self.maps):
            raise Refused(2)
        if 'unmap-late' not in self.faults:
            self.maps = left
        return p[:24]

    def place(self, addr, size):
        for m in self.maps:
            if m.addr <= addr and addr + size <= m.addr + m.size:
                return m.mem, addr - m.addr
        raise Refused(BAD_DATA)

    def load(self, addr, size):
        mem, at = self.place(addr, size)
        return mem[at:at + size]

    def store(self, addr, data):
        mem, at = self.place(addr, len(data))
        mem[at:at + len(data)] = data

    def prps(self, sqe, size):
        prp1, prp2 = struct.unpack_from('<QQ', sqe, 24)
        if 'prp-offset' in self.faults:
            prp1 &= ~(PAGE - 1)
        n = min(size, PAGE - prp1 % PAGE)
        yield prp1, n
        size -= n
        if not size:
            return
        if size <= PAGE:
            yield prp2, size
            return
        if 'prp-list' in self.faults:
            yield struct.unpack('<Q', self.load(prp2, 8))[0], size
            return
        while size:
            entry = struct.unpack('<Q', self.load(prp2, 8))[0]
            if prp2 % PAGE == PAGE - 8 and size > PAGE and 'prp-chain' not in self.faults:
                prp2 = entry
                continue
            n = min(size, PAGE)
            yield entry, n
            size -= n
            prp2 += 8

    def sgls(self, sqe, size):
        todo = [sqe[24:40]]
        while size and todo:
            addr, n, kind = struct.unpack('<QI3xB', todo.pop(0))
            if kind >> 4 in (2, 3):
                seg = self.load(addr, n)
                todo = [seg[i:i + 16] for i in range(0, n, 16)]
                if 'sgl-segment' in self.faults and kind >> 4 == 3:
                    todo.reverse()
            elif kind >> 4 == 0:
                n = min(n, size)
                yield addr, n
                size -= n
            else:
                raise Refused(0x11)
        if size:
            raise Refused(0x0f)

    def pieces(self, sqe, size):
        if not size:
            return ()
        return self.sgls(sqe, size) if sqe[1] >> 6 else self.prps(sqe, size)

    def fetch(self, sqe, size):
        return b''.join(self.load(a, n) for a, n in self.pieces(sqe, size))

    def send(self, sqe, data):
        at = 0
        for a, n in self.pieces(sqe, len(data)):
            self.store(a, data[at:at + n])
            at += n

    # ---- queues ----

    def poll(self):
        """One turn over all queues: how many commands."""
        done = 0
        for mem, at, low in self.late:
            ctypes.c_uint64.from_buffer(mem, at).value = low
        self.late = []
        for qid, q in list(self.sqs.items()):
            if f'{"io" if qid else "admin"}-dead' in self.faults:
                continue
            tail = ctypes.c_uint32.from_buffer(self.bells, 8 * qid).value
            if tail >= q.size:
                continue
            for _ in range(64):
                if q.head == tail or qid not in self.sqs:
                    break
                self.one(qid, q)
                done += 1
        if self.late:
            time.sleep(0.002)
        return done

    def one(self, qid, q):
        sqe = self.load(q.addr + 64 * q.head, 64)
        if qid and 'zero-sqes' in self.faults:
            sqe = bytes(64)
        if qid and 'stale-sqes' in self.faults:
            q.is_old.append(sqe)
            if len(q.is_old) > 2000:
                sqe = q.is_old[-1500]
        q.head = (q.head + 1) % q.size
        try:
            if qid:
                status, dw0 = self.device.execute(self, sqe)
            else:
                status, dw0 = self.admin(sqe)
        except Refused as e:
            status, dw0 = e.args[0], 0
        self.post(qid, q, sqe, status, dw0)

    def post(self, qid, q, sqe, status, dw0):
        cq = q.cq
        head = (q.head + 7) % q.size if 'sq-head' in self.faults and qid else q.head
        cid = struct.unpack_from('<H', sqe, 2)[0]
        high = head | qid << 16 | cid << 32 | (status << 1 | cq.phase) << 48
        mem, at = self.place(cq.addr + 16 * cq.tail, 16)
        self.nr_cqes += 1
        odd = qid and self.nr_cqes % 50 == 0
        if odd and 'torn-late' in self.faults:
            self.late.append((mem, at, dw0 | 0x7ea7 << 32))
        elif not (odd and 'torn' in self.faults):
            ctypes.c_uint64.from_buffer(mem, at).value = dw0
        ctypes.c_uint64.from_buffer(mem, at + 8).value = high
        cq.tail = (cq.tail + 1) % cq.size
        cq.phase ^= cq.tail == 0
        if cq.vector in self.irqs:
            os.eventfd_write(self.irqs[cq.vector], 1)

    # ---- admin ----

    def admin(self, sqe):
        opc = sqe[0]
        nsid, = struct.unpack_from('<I', sqe, 4)
        prp1, _, dw10, dw11 = struct.unpack_from('<QQII', sqe, 24)
        if opc == 0x06:
            self.send(sqe, self.identify(dw10 & 0xff, dw11 >> 24, nsid))
            return OK, 0
        if opc in (0x09, 0x0a):
            return OK, 63 << 16 | 63 if dw10 & 0xff == 7 else 0
        if opc == 0x08:
            return OK, 1
        qid, size = dw10 & 0xffff, (dw10 >> 16) + 1
        if opc in (0x01, 0x05) and (not 0 < qid < 128 or size < 2):
            raise Refused(BAD_QID)
        if opc == 0x05:
            self.cqs[qid] = Queue(prp1, size, vector=dw11 >> 16 if dw11 & 2 else None)
        elif opc == 0x01:
            if dw11 >> 16 not in self.cqs:
                raise Refused(BAD_CQ)
            self.bells[8 * qid:8 * qid + 8] = bytes(8)
            self.sqs[qid] = Queue(prp1, size, self.cqs[dw11 >> 16])
        elif opc in (0x00, 0x04):
            if not qid or qid not in (self.cqs if opc else self.sqs):
                raise Refused(BAD_QID)
            if 'queues-stay' in self.faults:
                raise Refused(0x06)
            del (self.cqs if opc else self.sqs)[qid]
        else:
            raise Refused(BAD_OPCODE)
        return OK, 0

    def identify(self, cns, csi, nsid):
        page = bytearray(4096)
        if cns == 0x01:
            struct.pack_into('<HH20s40s8s', page, 0, VID, VID, b'1'.ljust(20),
                             b'plain Python'.ljust(40), b'1'.ljust(8))
            page[77], page[512], page[513] = 8, 0x66, 0x44
            struct.pack_into('<I', page, 516, 1)
            struct.pack_into('<I', page, 536, 1)
            page[768:800] = b'nqn.2024-01.test:python-device'.ljust(32, b'\0')
        elif cns in (0x02, 0x07):
            struct.pack_into('<I', page, 0, 0 if 'no-namespace' in self.faults else 1)
        elif cns == 0x05 and csi == 1 and nsid == 1:
            used = sum(map(len, self.device.values.values()))
            struct.pack_into('<QQQ', page, 0, 1 << 30, 0, used)
            struct.pack_into('<HBBII', page, 72, 16, 0, 0, VALUE_MAX, 0)
        elif cns == 0x03 and nsid == 1:
            page[0:5] = b'\4\1\0\0\1'
        else:
            raise Refused(BAD_NS if cns == 0x05 else BAD_FIELD)
        return page


class Device:
    def __init__(self, path, faults=()):
        assert set(faults) <= set(FAULTS), faults
        self.faults = frozenset(faults)
        self.values = collections.OrderedDict()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)
        self.clients = {}

    def execute(self, client, sqe):
        """One KV command: (status, DW0)."""
        nsid, = struct.unpack_from('<I', sqe, 4)
        size, dw11 = struct.unpack_from('<II', sqe, 40)
        n = dw11 & 0xff
        if nsid != 1:
            return BAD_NS, 0
        if sqe[0] == 0x00:
            return OK, 0
        if sqe[0] not in (0x01, 0x02, 0x06, 0x10, 0x14):
            return BAD_OPCODE, 0
        if n > 16 or (n == 0 and sqe[0] != 0x06):
            return BAD_KEY, 0
        key = (sqe[8:16] + sqe[56:64])[:n]
        if sqe[0] == 0x01:
            return self.put(client, sqe, key, size, dw11 >> 8 & 0xff)
        if sqe[0] == 0x06:
            return self.list(client, sqe, key, size)
        if key not in self.values:
            return NOT_FOUND, 0
        if sqe[0] == 0x10:
            del self.values[key]
        if sqe[0] == 0x02:
            return self.get(client, sqe, key, size)
        return OK, 0

    def put(self, client, sqe, key, size, options):
        if not 0 < size <= VALUE_MAX:
            return BAD_SIZE, 0
        if options & 1 and key not in self.values:
            return NOT_FOUND, 0
        if options & 2 and key in self.values:
            return EXISTS, 0
        self.values[key] = client.fetch(sqe, size)
        return OK, 0

    def get(self, client, sqe, key, size):
        value = self.values[key]
        data = bytearray(value[:size])
        if data and 'wrong-value' in self.faults:
            data[len(data) // 2] ^= 16
        if data and 'other-value' in self.faults:
            data = (next(iter(self.values.values())) * len(data))[:len(data)]
        client.send(sqe, bytes(data))
        return OK, 0 if 'no-length' in self.faults else len(value)

    def list(self, client, sqe, key, size):
        keys = list(self.values)
        out, nr = bytearray(4), 0
        for k in keys[keys.index(key) if key in keys else 0:]:
            entry = struct.pack('<H', len(k)) + k
            entry += bytes(-len(entry) % 4)
            if len(out) + len(entry) > size:
                break
            out += entry
            nr += 1
        struct.pack_into('<I', out, 0, nr)
        client.send(sqe, bytes(out[:size]))
        return OK, 0

    def turn(self, wait_s):
        """One turn: True when something was done. Standard input's end: None."""
        socks = [self.listener, sys.stdin, *self.clients]
        ready = select.select(socks, [], [], wait_s)[0]
        for s in ready:
            if s is sys.stdin:
                return None
            if s is self.listener:
                sock = s.accept()[0]
                self.clients[sock] = Client(self, sock)
                continue
            try:
                alive = self.clients[s].receive()
            except OSError:
                alive = False
            if not alive:
                self.clients.pop(s).close()
        done = 0
        for c in list(self.clients.values()):
            try:
                done += c.poll()
            except Refused:
                c.regs[0x1c] |= 2  # a ring that isn't mapped: fatal
                c.sqs, c.cqs = {}, {}
        return bool(ready or done)

    def serve(self):
        idle = 0
        while (did := self.turn(0 if idle < 100 else 0.0005 if self.clients else 60)) is not None:
            idle = 0 if did else idle + 1


if __name__ == '__main__':
    device = Device(sys.argv[1], sys.argv[2:])
    print(sys.argv[1], flush=True)
    device.serve()
