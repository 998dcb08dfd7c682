#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The block namespace of a real peald, by a host that shares no code with it: random writes, reads,
zeroes and discards of all sizes, many at a time, against a model; the same bytes in the file; the
same again after SIGKILL of the daemon.

usage: block.py PEALD
"""

import mmap
import os
import random
import struct
import sys
import tempfile

import peer
from vfu_host import DEPTH, DMA_MAP, IO_CQ, IO_SQ, IOVA, Host

FLUSH, WRITE, READ, ZEROES, DSM = 0x00, 0x01, 0x02, 0x08, 0x09
LBA_RANGE, FUA, DEAC = 0x80, 1 << 30, 1 << 25
LBA = 512
NR = 8192  # blocks
SLOT = 256 << 10  # of a command's data
AREA_IOVA = 0x9_0000_0000
ROUNDS = 60


class BlockHost(Host):
    def __init__(self, folder):
        super().__init__(f'{folder}/cntrl')
        self.area_fd = os.memfd_create('area')
        os.ftruncate(self.area_fd, SLOT * DEPTH)
        self.area = mmap.mmap(self.area_fd, SLOT * DEPTH)
        self.attach()
        self.call(DMA_MAP, struct.pack('<IIQQQ', 32, 3, 0, AREA_IOVA, SLOT * DEPTH),
                  [self.area_fd])
        self.enable()
        size = (DEPTH - 1) << 16 | 1
        assert self.command(0, 0x05, prp=IOVA + IO_CQ, dw10=size, dw11=1)[0] == 0
        assert self.command(0, 0x01, prp=IOVA + IO_SQ, dw10=size, dw11=1 << 16 | 1)[0] == 0

    def submit(self, slot, opc, slba=0, nlb=1, more=0):
        """Data lie in the slot, as one SGL data block, but for DSM's, whose range this is."""
        q = self.queues[1]
        length = 16 if opc == DSM else nlb * LBA if opc in (READ, WRITE) else 0
        dw = (slba & 0xffffffff, slba >> 32, nlb - 1 | more)
        if opc == DSM:
            self.area[slot * SLOT:slot * SLOT + 16] = struct.pack('<IIQ', 0, nlb, slba)
            dw = (0, 4, 0)
        sqe = struct.pack('<BBHIQQQIIIIIIII', opc, 1 << 6, slot, 2, 0, 0,
                          AREA_IOVA + slot * SLOT, length, 0, *dw, 0, 0, 0)
        self.mem[q[0] + 64 * q[2]:q[0] + 64 * q[2] + 64] = sqe
        q[2] = (q[2] + 1) % DEPTH

    def ring(self, nr):
        """Statuses by slot."""
        q = self.queues[1]
        self.bell(1, False, q[2])
        got = {}
        for _ in range(nr):
            at = q[1] + 16 * q[3]
            while struct.unpack_from('<H', self.mem, at + 14)[0] & 1 != q[4]:
                os.sched_yield()
            _, _, _, _, cid, st = struct.unpack_from('<IIHHHH', self.mem, at)
            got[cid] = st >> 1 & 0x7ff
            q[3] = (q[3] + 1) % DEPTH
            q[4] ^= q[3] == 0
        self.bell(1, True, q[3])
        return got

    def one(self, opc, **args):
        self.submit(0, opc, **args)
        return self.ring(1)[0]


def ranges(nr):
    """That many ranges, none of which meets another."""
    cuts = sorted(random.sample(range(NR + 1), 2 * nr))
    return [(a, min(b - a, SLOT // LBA)) for a, b in zip(cuts[::2], cuts[1::2])]


def change(host, model):
    todo = ranges(random.randint(1, DEPTH - 1))
    for slot, (slba, nlb) in enumerate(todo):
        opc = random.choice([WRITE, WRITE, WRITE, ZEROES, DSM])
        data = random.randbytes(nlb * LBA) if opc == WRITE else bytes(nlb * LBA)
        host.area[slot * SLOT:slot * SLOT + len(data)] = data
        host.submit(slot, opc, slba, nlb, random.choice([0, 0, FUA if opc != DSM else 0])
                    | (DEAC if opc == ZEROES and random.random() < .5 else 0))
        model[slba * LBA:(slba + nlb) * LBA] = data
    assert set(host.ring(len(todo)).values()) == {0}


def check(host, model):
    todo = ranges(random.randint(1, DEPTH - 1))
    for slot, (slba, nlb) in enumerate(todo):
        host.submit(slot, READ, slba, nlb)
    assert set(host.ring(len(todo)).values()) == {0}
    for slot, (slba, nlb) in enumerate(todo):
        want = model[slba * LBA:(slba + nlb) * LBA]
        assert host.area[slot * SLOT:slot * SLOT + len(want)] == want, f'blocks {slba}+{nlb}'


def check_all(host, model):
    for slba in range(0, NR, SLOT // LBA):
        assert host.one(READ, slba=slba, nlb=SLOT // LBA) == 0
        assert host.area[:SLOT] == model[slba * LBA:slba * LBA + SLOT], f'blocks from {slba}'


def main():
    random.seed(1)
    model = bytearray(NR * LBA)
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        args = ('--dram', '64M', '--reactors', '2', '--block',
                f'{folder}/disk,size={NR * LBA // 1024}K')
        d = peer.Daemon(sys.argv[1], folder, *args)
        host = BlockHost(folder)
        for _ in range(ROUNDS):
            change(host, model)
            check(host, model)
        assert host.one(READ, slba=NR, nlb=1) == LBA_RANGE
        assert host.one(WRITE, slba=NR - 1, nlb=2) == LBA_RANGE
        assert host.one(FLUSH) == 0
        with open(f'{folder}/disk', 'rb') as f:
            assert f.read() == model, 'the file has other bytes'
        d.process.kill()
        d.process.wait()
        host.sock.close()
        d = peer.Daemon(sys.argv[1], folder, *args)
        host = BlockHost(folder)
        check_all(host, model)
        host.sock.close()
        d.stop()
        assert d.process.returncode == 0, d.process.returncode
        print(d.log)


if __name__ == '__main__':
    main()
