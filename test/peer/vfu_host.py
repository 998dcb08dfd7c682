#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A vfio-user NVMe host in plain Python, written from the specifications alone.

    vfu_host.py SERVER     starts SERVER (which prints its socket's path), attaches, enables the
                           controller, Identify, one I/O queue, a command, interrupts, reset

It shares no code with the daemon or its library: what both got wrong in the same way shows here.
Exit status 0 when everything was as it should be.
"""

import array
import ctypes
import json
import mmap
import os
import select
import socket
import struct
import subprocess
import sys

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO = 1, 2, 3, 4, 5
SET_IRQS, REGION_READ, REGION_WRITE, RESET = 8, 9, 10, 13
BAR0, CONFIG = 0, 7
IOVA = 0x2_0000_0000
SQ, CQ, IO_SQ, IO_CQ, DATA = 0x0000, 0x1000, 0x2000, 0x3000, 0x4000
MEM_BYTES = 1 << 20
DEPTH = 16


class Host:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(path)
        self.msg_id = 0
        self.fd = os.memfd_create('host')
        os.ftruncate(self.fd, MEM_BYTES)
        self.mem = mmap.mmap(self.fd, MEM_BYTES)

    def call(self, cmd, payload=b'', fds=()):
        """One message and its reply: (payload, descriptors)."""
        self.msg_id += 1
        head = struct.pack('<HHIII', self.msg_id, cmd, 16 + len(payload), 0, 0)
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
        self.sock.sendmsg([head + payload], anc)
        got = array.array('i')
        reply = b''
        want = 16
        while len(reply) < want:
            data, anc, _, _ = self.sock.recvmsg(want - len(reply), socket.CMSG_SPACE(64))
            assert data, 'the server hung up'
            reply += data
            for _, _, raw in anc:
                got.frombytes(raw[:len(raw) // 4 * 4])
            if len(reply) >= 16:
                want = struct.unpack_from('<I', reply, 4)[0]
        mid, rcmd, _, flags, err = struct.unpack_from('<HHIII', reply)
        assert (mid, rcmd, flags & 15) == (self.msg_id, cmd, 1), reply[:16]
        if flags & 0x20:
            raise OSError(err, os.strerror(err))
        return reply[16:], list(got)

    def read(self, region, off, size):
        data, _ = self.call(REGION_READ, struct.pack('<QII', off, region, size))
        assert data[:16] == struct.pack('<QII', off, region, size)
        return data[16:]

    def write(self, region, off, data):
        self.call(REGION_WRITE, struct.pack('<QII', off, region, len(data)) + data)

    def reg(self, off, size=4):
        return int.from_bytes(self.read(BAR0, off, size), 'little')

    def set_reg(self, off, val, size=4):
        self.write(BAR0, off, val.to_bytes(size, 'little'))

    def attach(self):
        caps = {'capabilities': {'max_msg_fds': 8, 'twin_socket': {'supported': False}}}
        ver, _ = self.call(VERSION, struct.pack('<HH', 0, 1) + json.dumps(caps).encode() + b'\0')
        assert struct.unpack_from('<HH', ver) in ((0, 0), (0, 1)) and ver[-1] == 0
        assert 'peal' not in json.loads(ver[4:-1])['capabilities']
        info, _ = self.call(GET_INFO, struct.pack('<4I', 16, 0, 0, 0))
        assert struct.unpack('<4I', info)[1:] == (3, 9, 5)
        reg, fds = self.call(GET_REGION_INFO, struct.pack('<4I2Q', 4096, 0, BAR0, 0, 0, 0))
        size, off = struct.unpack_from('<QQ', reg, 16)
        cap_id, _, _, areas, _, area_off, area_size = struct.unpack_from('<HHIIIQQ', reg, 32)
        assert (cap_id, areas, area_off, area_size) == (1, 1, 0x1000, 0x1000) and size >= 0x2000
        self.bells = mmap.mmap(fds[0], area_size, offset=off + area_off)
        self.call(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, IOVA, MEM_BYTES), [self.fd])

    def enable(self):
        cap = self.reg(0, 8)
        assert cap & 0xffff >= DEPTH - 1 and cap >> 43 & 1, hex(cap)
        self.mem[:DATA] = bytes(DATA)
        self.queues = {0: [SQ, CQ, 0, 0, 1], 1: [IO_SQ, IO_CQ, 0, 0, 1]}
        self.set_reg(0x24, (DEPTH - 1) << 16 | (DEPTH - 1))
        self.set_reg(0x28, IOVA + SQ, 8)
        self.set_reg(0x30, IOVA + CQ, 8)
        self.set_reg(0x14, 4 << 20 | 6 << 16 | 6 << 4 | 1)
        while not self.reg(0x1c) & 1:
            assert not self.reg(0x1c) & 2, 'CFS'

    def bell(self, qid, is_cq, val):
        word = ctypes.c_uint32.from_buffer(self.bells, (2 * qid + is_cq) * 4)
        word.value = val

    def command(self, qid, opc, nsid=0, prp=0, dw10=0, dw11=0, dw12=0):
        """Issues it and waits: (status, dw0)."""
        q = self.queues[qid]
        cid = 100 + q[2]
        sqe = struct.pack('<BBHIQQQQIIIIQ', opc, 0, cid, nsid, 0, 0, prp, 0, dw10, dw11, dw12, 0, 0)
        self.mem[q[0] + 64 * q[2]:q[0] + 64 * q[2] + 64] = sqe
        q[2] = (q[2] + 1) % DEPTH
        self.bell(qid, False, q[2])
        at = q[1] + 16 * q[3]
        while struct.unpack_from('<H', self.mem, at + 14)[0] & 1 != q[4]:
            os.sched_yield()
        dw0, _, head, sqid, got, st = struct.unpack_from('<IIHHHH', self.mem, at)
        assert (head, sqid, got) == (q[2], qid, cid)
        q[3] = (q[3] + 1) % DEPTH
        q[4] ^= q[3] == 0
        self.bell(qid, True, q[3])
        return st >> 1 & 0x7ff, dw0


def run(h):
    h.attach()
    assert h.read(CONFIG, 9, 3) == b'\x02\x08\x01'
    for _ in range(2):
        h.enable()
        assert h.command(0, 0x06, prp=IOVA + DATA, dw10=1)[0] == 0
        ident = h.mem[DATA:DATA + 4096]
        assert ident[0:2] == h.read(CONFIG, 0, 2) and ident[512] == 0x66 and ident[513] == 0x44
        efd = os.eventfd(0, os.EFD_NONBLOCK)
        h.call(SET_IRQS, struct.pack('<5I', 20, 1 << 2 | 1 << 5, 2, 1, 1), [efd])
        size = (DEPTH - 1) << 16 | 1
        assert h.command(0, 0x05, prp=IOVA + IO_CQ, dw10=size, dw11=1 << 16 | 3)[0] == 0
        assert h.command(0, 0x01, prp=IOVA + IO_SQ, dw10=size, dw11=1 << 16 | 1)[0] == 0
        for n in range(3 * DEPTH):
            assert h.command(1, 0x14, nsid=1, dw12=n) == (0, n)
        assert select.select([efd], [], [], 60)[0], 'no interrupt'
        os.close(efd)
        assert h.command(1, 0x02, nsid=1, prp=IOVA + DATA, dw10=4096, dw12=5) == (0, 4096)
        want = bytes((5 * 2654435761 + i * 40503 & 0xffffffff) >> 7 & 255 for i in range(4096))
        assert h.mem[DATA:DATA + 4096] == want
        assert h.command(1, 0x02, nsid=1, prp=0x1000, dw10=4096)[0] == 4  # data transfer error
        h.call(RESET)
        assert h.reg(0x1c) == 0
    h.call(DMA_UNMAP, struct.pack('<IIQQ', 24, 0, IOVA, MEM_BYTES))


def main():
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    run(Host(server.stdout.readline().strip()))
    server.stdin.close()
    sys.exit(server.wait(timeout=60))


if __name__ == '__main__':
    main()
