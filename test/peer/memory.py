#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that takes its memory away under commands of a real peald: files punched and truncated,
DMA unmapped, in the end the very rings. Each command ends well or with Data Transfer Error; after
the answer to an unmap nothing is written there any more; another host never notices.

usage: memory.py PEALD
"""

import ctypes
import os
import random
import struct
import sys

import peer
from vfu_host import (CQ, DATA, DEPTH, DMA_MAP, DMA_UNMAP, IO_CQ, IO_SQ, IOVA, MEM_BYTES, SQ, Host)

VALUE = 1 << 20
AREA_IOVA = 0x9_0000_0000
STORE, RETRIEVE = 1, 2
DATA_TRANSFER = 4
ROUNDS = 12
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


class KvHost(Host):
    """With an area that has a file of its own: touched by pread() and pwrite() only."""

    def __init__(self, folder):
        super().__init__(f'{folder}/cntrl')
        self.area = os.memfd_create('area')
        os.ftruncate(self.area, VALUE * DEPTH)
        self.attach()
        self.map_area()
        self.enable()
        size = (DEPTH - 1) << 16 | 1
        assert self.command(0, 0x05, prp=IOVA + IO_CQ, dw10=size, dw11=1)[0] == 0
        assert self.command(0, 0x01, prp=IOVA + IO_SQ, dw10=size, dw11=1 << 16 | 1)[0] == 0

    def map_area(self):
        self.call(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, AREA_IOVA, VALUE * DEPTH), [self.area])

    def unmap_area(self):
        self.call(DMA_UNMAP, struct.pack('<IIQQ', 24, 0, AREA_IOVA, VALUE * DEPTH))

    def submit(self, opc, key, slots):
        """One wave on the I/O queue, each command with its slot of the area as a data block."""
        q = self.queues[1]
        k = key.ljust(16, b'\0')
        for slot in slots:
            sqe = struct.pack('<BBHI8sQQIIII2I8s', opc, 1 << 6, slot, 1, k[:8], 0,
                              AREA_IOVA + slot * VALUE, VALUE, 0, VALUE, len(key), 0, 0, k[8:])
            self.mem[q[0] + 64 * q[2]:q[0] + 64 * q[2] + 64] = sqe
            q[2] = (q[2] + 1) % DEPTH
        self.bell(1, False, q[2])

    def reap(self, nr):
        """Statuses by slot."""
        q = self.queues[1]
        got = {}
        while len(got) < nr:
            at = q[1] + 16 * q[3]
            while struct.unpack_from('<H', self.mem, at + 14)[0] & 1 != q[4]:
                os.sched_yield()
            cid, st = struct.unpack_from('<HH', self.mem, at + 12)
            assert cid not in got, f'two completions of {cid}'
            got[cid] = st >> 1 & 0x7ff
            q[3] = (q[3] + 1) % DEPTH
            q[4] ^= q[3] == 0
            self.bell(1, True, q[3])
        return got

    def store(self, key, value, slot=0):
        os.pwrite(self.area, value, slot * VALUE)
        self.submit(STORE, key, [slot])
        assert self.reap(1) == {slot: 0}

    def check(self, key, value, slot=0):
        os.pwrite(self.area, bytes(VALUE), slot * VALUE)
        self.submit(RETRIEVE, key, [slot])
        assert self.reap(1) == {slot: 0}
        assert os.pread(self.area, VALUE, slot * VALUE) == value, 'wrong bytes'


def punch(host):
    """What is read there afterwards is 0, and what is written is there: no command fails."""
    done = LIBC.fallocate(host.area, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                          ctypes.c_long(0), ctypes.c_long(VALUE * DEPTH))
    assert done == 0, os.strerror(ctypes.get_errno())


def truncate(host):
    os.ftruncate(host.area, random.randrange(VALUE * DEPTH))


def unmap(host):
    host.unmap_area()
    # It is ours now, whatever was under way.
    fill = random.randbytes(4096) * (VALUE * DEPTH // 4096)
    os.pwrite(host.area, fill, 0)
    return fill


def restore(host, what, fill):
    os.ftruncate(host.area, VALUE * DEPTH)
    if what is unmap:
        got = os.pread(host.area, VALUE * DEPTH, 0)
        assert got == fill, 'written after the answer to DMA_UNMAP'
        host.map_area()


def under_io(host, other, values):
    """values: of key b'v' at both hosts."""
    failed = 0
    for n in range(ROUNDS):
        for what in (punch, truncate, unmap):
            opc = STORE if n % 3 == 2 else RETRIEVE
            key = b'scrap' if opc == STORE else b'v'
            host.submit(opc, key, range(DEPTH - 1))
            fill = what(host)
            got = host.reap(DEPTH - 1)
            may_be = {0} if what is punch and opc == STORE else {0, DATA_TRANSFER}
            assert set(got.values()) <= may_be, got
            failed += sum(st != 0 for st in got.values())
            restore(host, what, fill)
            host.check(b'v', values)
            other.check(b'v', values)
    return failed


def without_rings(host, other, value):
    """Its queues' memory is gone: it gets no answer, and nobody else hears of it."""
    host.submit(RETRIEVE, b'v', range(DEPTH - 1))
    host.mem.close()
    os.ftruncate(host.fd, 0)
    other.check(b'v', value)
    # CFS, or the door is shut.
    try:
        while not host.reg(0x1c) & 2:
            host.bell(1, False, random.randrange(DEPTH))
            other.check(b'v', value)
    except (AssertionError, OSError):
        pass
    host.sock.close()
    other.check(b'v', value)


def count(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def main():
    random.seed(1)
    value = random.randbytes(VALUE)
    with peer.daemon(sys.argv[1], '--dram', '64M', '--reactors', '2') as d:
        before = count(d.pid)
        other = KvHost(d.folder)
        other.store(b'v', value)
        one = count(d.pid)
        host = KvHost(d.folder)
        failed = under_io(host, other, value)
        print(f'{failed} of {ROUNDS * 3 * (DEPTH - 1)} commands failed')
        assert failed > 0, 'no command ever met memory that was gone'
        without_rings(host, other, value)
        while count(d.pid) > one:
            other.check(b'v', value)
        other.sock.close()
        while count(d.pid) > before:
            os.sched_yield()


if __name__ == '__main__':
    main()
