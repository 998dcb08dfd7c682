#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peald under a stock guest: QEMU's vfio-user-pci, Debian's kernel and its nvme driver, nvme-cli.

A KV and a block namespace through their commands, namespaces that come and go, a guest that
reboots, one that is killed, a daemon that is killed.

usage: qemu_vfu.py PEALD PEAL OWN_QUEUE
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# pylint: disable=wrong-import-position
import disk
import guest
import kv
import peer

SIZES = [1, 511, 4095, 4096, 4097, 65536, 65537, 131072, 500001, 1 << 20]
ROUNDS = 5  # waves of own_queue
STARTED = time.monotonic()


def say(what):
    print(f'{time.monotonic() - STARTED:6.1f} s  {what}', flush=True)


class Test:
    def __init__(self, programs, folder):
        self.peald, self.peal_exe, self.own_queue = programs
        self.folder = folder
        self.kit = guest.Kit()
        self.disk = f'{folder}/disk'
        self.guests = []
        self.start_daemon()

    def start_daemon(self):
        self.d = peer.Daemon(self.peald, self.folder, '--dram', '64M', '--ns', 'kv=32M,rw',
                             '--block', f'{self.disk},size=64M')

    def start_guest(self, tools=guest.TOOLS):
        g = guest.Guest(self.folder, self.kit, [f'{self.folder}/cntrl'], [self.own_queue], tools)
        self.guests.append(g)
        return g, kv.Kv(g, self.peal_exe, self.d.uri)

    def peal(self, *args):
        return subprocess.run([self.peal_exe, '--uri', self.d.uri, *args], stdout=subprocess.PIPE,
                              text=True, check=True).stdout


def bound(g):
    """The driver took the controller, KV has its character device and blocks have their disk."""
    out = g.run('nvme id-ctrl /dev/nvme0; ls /dev/ng0n1 /dev/nvme0n2 '
                '/sys/class/nvme/nvme0/device/driver/module/; dmesg | grep nvme')
    assert 'Peal KV' in out and '/dev/ng0n1' in out, out
    assert 'block device for nsid 1 not supported (csi 1)' in out, out
    assert g.status('ls /dev/nvme0n1')[0] != 0, 'a block device for a KV namespace'


def live(t, g):
    """A namespace made while the guest runs is used by it, and goes again."""
    assert t.peal('ns', 'create', '8M') == 'namespace 3\n'
    g.wait('[ -e /dev/ng0n3 ]')
    more = kv.Kv(g, t.peal_exe, t.d.uri, nsid=3)
    kv.check_values(more, [70000])
    t.peal('ns', 'delete', '3')
    g.wait('[ ! -e /dev/ng0n3 ]')
    assert g.status('ls /dev/ng0n1 /dev/nvme0n2')[0] == 0


def own_value(no, i):
    """Value i of a round of own_queue.c."""
    out = b''
    for b in range(0, 4096, 8):
        x = (no << 40 | i << 20 | b) * 0x9e3779b97f4a7c15 & 0xffffffffffffffff
        out += (x ^ x >> 29).to_bytes(8, 'little')
    return out


def own_queue(g, k):
    """The published GPU-in-guest picture without a GPU: no driver, BAR0 mapped, waves of 1023."""
    bdf = g.run('basename $(readlink /sys/class/nvme/nvme0/device)')
    g.run(f'echo {bdf} >/sys/bus/pci/drivers/nvme/unbind; [ ! -e /dev/nvme0 ]')
    out = g.run(f'own_queue wave {bdf} {ROUNDS}')
    assert out.count('1023 values of 4096 bytes right') == ROUNDS, out
    print(out)
    # What the host has is what the guest meant.
    for i in (0, 511, 1022):
        key = b'own\0' + (ROUNDS - 1).to_bytes(4, 'little') + i.to_bytes(4, 'little') + bytes(4)
        assert k.there(key) == hashlib.sha256(own_value(ROUNDS - 1, i)).hexdigest()
    # The driver takes over again as if nothing had been.
    g.run(f'echo {bdf} >/sys/bus/pci/drivers/nvme/bind')
    g.wait('[ -e /dev/ng0n1 ]')
    kv.check_values(k, [5000])


def first(t):
    """Everything that one guest does; it ends by SIGKILL with commands under way."""
    g, k = t.start_guest((*guest.TOOLS, guest.FIO))
    say('guest is up')
    bound(g)
    kv.check_standard(k)
    kv.check_vendor(k)
    kv.check_values(k, SIZES)
    say('KV commands')
    disk.check_raw(g, t.disk)
    kept = disk.make_fs(g)
    disk.check_fs(g, kept)
    say('blocks')
    live(t, g)
    say('live namespaces')
    want = k.there(b'value 500001')
    g.run('sync')
    g.reboot()
    say('rebooted')
    bound(g)
    disk.check_fs(g, kept)
    assert k.ok(kv.RETRIEVE, b'value 500001', length=500001, into='/tmp/w') == 500001
    assert k.sum('/tmp/w') == want
    g.run('(while true; do head -c 1000000 /dev/urandom >/mnt/new; sync; done) >/dev/null 2>&1 &'
          ' sleep 1')
    g.kill()
    # Whatever it had under way, the daemon is well and its values are as they were.
    assert k.there(b'value 500001') == want
    say('guest was killed')
    return kept, want


def second(t, kept, want):
    """A new guest; then its daemon is killed, which it survives."""
    g, k = t.start_guest()
    bound(g)
    disk.check_fs(g, kept)
    assert k.ok(kv.RETRIEVE, b'value 500001', length=500001, into='/tmp/w') == 500001
    assert k.sum('/tmp/w') == want
    say('new guest is up')
    g.run('umount /mnt')
    own_queue(g, k)
    say('a queue of its own')
    t.d.process.kill()
    t.d.process.wait()
    assert g.status('dd if=/dev/nvme0n2 of=/dev/null bs=4096 count=1 iflag=direct')[0] != 0
    assert g.run('echo well') == 'well'
    g.kill()
    say('daemon was killed, its guest is well')


def third(t, kept):
    """The daemon again: no value is left, every block is."""
    t.start_daemon()
    g, k = t.start_guest()
    bound(g)
    k.fails(kv.NOT_FOUND, kv.EXIST, b'value 500001')
    kv.check_values(k, [4096])
    disk.check_fs(g, kept)
    g.run('umount /mnt')
    g.kill()
    t.d.stop()
    assert t.d.process.returncode == 0, t.d.process.returncode
    say('daemon again, a guest on it')


def main():
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        t = Test(sys.argv[1:], folder)
        try:
            kept, want = first(t)
            second(t, kept, want)
            third(t, kept)
        finally:
            for g in t.guests:
                g.kill()
            t.d.process.kill()


if __name__ == '__main__':
    main()
