#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ROCm XIO's nvme-ep writes, byte for byte, against a real peald: I/O queue 8 of 1024 slots,
doorbells 4 bytes apart, SQEs as eight stores of 8 bytes in whatever order the wavefront's threads
come, one doorbell, completions polled by position, CID = operation % 65535 + 1.

Its kernel was read, not run: there is no AMD GPU here. Results are attributed by CID, which it
doesn't do.

usage: xio.py PEALD
"""

import mmap
import os
import random
import struct
import sys

import peer
from vfu_host import DMA_MAP, Host

QID, DEPTH = 8, 1024
AREA = 0x8_0000_0000
AREA_BYTES = 16 << 20
SQ, CQ, DATA = 0, 0x10000, 0x100000
VALUE = 4096
STORE, RETRIEVE, EXEC = 0x01, 0x02, 0x83
INVALID_OPCODE, NOT_FOUND = 0x01, 0x87
OPERATIONS = 70000  # CIDs wrap


class Xio(Host):
    def __init__(self, folder):
        super().__init__(f'{folder}/cntrl')
        self.area_fd = os.memfd_create('xio')
        os.ftruncate(self.area_fd, AREA_BYTES)
        self.area = mmap.mmap(self.area_fd, AREA_BYTES)
        self.words = memoryview(self.area).cast('Q')
        self.attach()
        self.call(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, AREA, AREA_BYTES), [self.area_fd])
        self.enable()
        # It asks for queue 8 at once, without any below it.
        size = (DEPTH - 1) << 16 | QID
        assert self.command(0, 0x05, prp=AREA + CQ, dw10=size, dw11=1)[0] == 0
        assert self.command(0, 0x01, prp=AREA + SQ, dw10=size, dw11=QID << 16 | 1)[0] == 0
        self.tail = self.head = self.operation = 0
        self.phase = 1

    def enqueue(self, slot, sqe):
        """XioComEnqueue: eight volatile stores, no fence."""
        at = (SQ + 64 * slot) // 8
        for i, word in enumerate(struct.unpack('<8Q', sqe)):
            self.words[at + i] = word

    def wave(self, opc, keys, size=VALUE):
        """One wavefront of len(keys) threads: {index of the key: (status, DW0)}."""
        threads = list(range(len(keys)))
        cids = {}
        random.shuffle(threads)
        for i in threads:
            cid = (self.operation + i) % 65535 + 1
            cids[cid] = i
            key = keys[i]
            self.enqueue((self.tail + i) % DEPTH, struct.pack(
                '<BBHI8sQQQIIII8s', opc, 0, cid, 1, key[:8], 0, AREA + DATA + VALUE * i, 0, size,
                len(key), 0, 0, key[8:]))
        self.operation += len(keys)
        self.tail = (self.tail + len(keys)) % DEPTH
        self.bell(QID, False, self.tail)
        got = {}
        for _ in keys:
            cqe = self.cqe()
            i = cids.pop(cqe[4])
            got[i] = (cqe[5] >> 1 & 0x7ff, cqe[0])
        self.bell(QID, True, self.head)
        return got

    def cqe(self):
        """cqeRead as it was mended: when the phase has flipped, the entry is read again."""
        at = CQ + 16 * self.head
        while self.area[at + 14] & 1 != self.phase:
            os.sched_yield()
        cqe = struct.unpack_from('<IIHHHH', self.area, at)
        assert cqe[3] == QID, cqe
        self.head = (self.head + 1) % DEPTH
        self.phase ^= self.head == 0
        return cqe


def key_of(i):
    return (i * 0x9e3779b97f4a7c15f39cc0605cedc835 % (1 << 128)).to_bytes(16, 'little')


def run(host):
    values = [random.randbytes(VALUE) for _ in range(DEPTH - 1)]
    keys = [key_of(i) for i in range(DEPTH - 1)]
    got = host.wave(RETRIEVE, keys)
    assert set(got.values()) == {(NOT_FOUND, 0)}, got
    for i, value in enumerate(values):
        host.area[DATA + VALUE * i:DATA + VALUE * (i + 1)] = value
    assert set(host.wave(STORE, keys).values()) == {(0, 0)}
    # Its Exec isn't served: said, and the queue goes on.
    assert {st for st, _ in host.wave(EXEC, keys[:64]).values()} == {INVALID_OPCODE}
    while host.operation < OPERATIONS:
        nr = random.choice([1, 63, 64, 512, DEPTH - 1])
        picked = random.sample(range(DEPTH - 1), nr)
        host.area[DATA:DATA + VALUE * nr] = bytes(VALUE * nr)
        # DW0 is the value's length, also when the buffer has less.
        size = random.choice([VALUE, VALUE, 512])
        got = host.wave(RETRIEVE, [keys[i] for i in picked], size)
        assert set(got.values()) == {(0, VALUE)}, got
        for n, i in enumerate(picked):
            at = DATA + VALUE * n
            assert host.area[at:at + size] == values[i][:size], f'value {i} is wrong'
    print(f'{host.operation} operations, CIDs wrapped, every byte right')


def main():
    random.seed(1)
    with peer.daemon(sys.argv[1], '--dram', '64M') as d:
        host = Xio(d.folder)
        assert host.reg(0, 8) & 0xffff >= DEPTH - 1, 'CAP.MQES'
        assert host.reg(0, 8) >> 32 & 15 == 0, 'CAP.DSTRD'
        run(host)
        host.sock.close()


if __name__ == '__main__':
    main()
