#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peald under a stock guest: QEMU's vfio-user-pci, Debian's kernel and its nvme driver, nvme-cli.

usage: qemu_vfu.py PEALD PEAL
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# pylint: disable=wrong-import-position
import guest
import kv
import peer


def bound(g):
    """The driver took the controller, and the KV namespace has its character device."""
    out = g.run('nvme id-ctrl /dev/nvme0; ls /dev/ng0n1 /sys/class/nvme/nvme0/device/driver/module/'
                '; dmesg | grep nvme')
    assert 'Peal KV' in out and '/dev/ng0n1' in out, out
    assert 'block device for nsid 1 not supported (csi 1)' in out, out
    assert g.status('ls /dev/nvme0n1')[0] != 0, 'a block device for a KV namespace'


def main():
    peald, peal = sys.argv[1:]
    kit = guest.Kit()
    with peer.daemon(peald, '--dram', '64M') as d:
        with guest.Guest(d.folder, kit, [f'{d.folder}/cntrl']) as g:
            bound(g)
            k = kv.Kv(g, peal, d.uri)
            k.fails(kv.NOT_FOUND, kv.RETRIEVE, b'nothing', length=4096, into='/tmp/w')
            kv.check_values(k, [1, 4096, 65536, 1 << 20])
            value = os.urandom(70001)
            k.put_there(b'from the host', value)
            assert k.ok(kv.RETRIEVE, b'from the host', length=81920, into='/tmp/w') == len(value)


if __name__ == '__main__':
    main()
