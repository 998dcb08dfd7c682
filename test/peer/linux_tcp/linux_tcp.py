#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stock Linux as a host of NVMe/TCP: Debian's kernel in an emulated guest, nvme-cli, peald on
this machine's loopback.

Discovery, connect, all KV commands by `nvme io-passthru`, large values, digests, several queues,
disconnect and connect under load, a daemon that is killed and comes back within the time that the
host waits for it.

usage: linux_tcp.py PEALD PEAL
"""

import os
import re
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), 'qemu_vfu')]
# pylint: disable=wrong-import-position
import guest
import kv
import peer

LARGE = 64 << 20
SIZES = [1, 511, 4096, 8192, 8193, 131072, 131073, 1 << 20]
STARTED = time.monotonic()


def say(what):
    print(f'{time.monotonic() - STARTED:6.1f} s  {what}', flush=True)


class Test:
    def __init__(self, peald, peal, folder):
        self.peald, self.peal, self.folder = peald, peal, folder
        self.port = '0'
        self.start()
        self.g = guest.Guest(folder, guest.Kit(), [], (), ('usr/sbin/nvme',), has_net=True)

    def start(self):
        self.d = peer.Daemon(self.peald, self.folder, '--dram', '256M', '--ns', 'kv=224M,rw',
                             '--tcp', self.port, '--id', 'linux')
        found = re.search(r'tcp: 127.0.0.1:(\d+) serves (\S+)', self.d.log)
        self.port, self.nqn = found[1], found[2]
        self.to = f'-t tcp -a {guest.HOST} -s {self.port}'

    def connect(self, more=''):
        self.g.run(f'nvme connect {self.to} -n {self.nqn} --hostnqn=nqn.2014-08.org.peal:guest '
                   f'{more}')
        self.g.wait('[ -e /dev/ng0n1 ]')
        return kv.Kv(self.g, self.peal, self.d.uri)

    def disconnect(self):
        self.g.run(f'nvme disconnect -n {self.nqn}')
        self.g.wait('[ ! -e /dev/ng0n1 ]')


def discover(t):
    out = t.g.run(f'nvme discover {t.to}')
    assert f'subnqn:  {t.nqn}' in out and f'trsvcid: {t.port}' in out, out
    assert 'Records 1' in out, out


def commands(t):
    c = t.connect()
    out = t.g.run('nvme id-ctrl /dev/nvme0; cat /sys/class/nvme/nvme0/transport; '
                  'dmesg | grep "nvme nvme0" | tail -n 5')
    assert 'Peal KV' in out and '\ntcp' in out, out
    assert 'block device for nsid 1 not supported (csi 1)' in out, out
    kv.check_values(c, SIZES)
    kv.check_standard(c)
    kv.check_vendor(c, has_lease=False)
    t.disconnect()


def large(t):
    c = t.connect('--nr-io-queues=1')
    want = c.make('/tmp/large', LARGE)
    c.ok(kv.STORE, b'large', length=LARGE, file='/tmp/large')
    t.g.run('rm /tmp/large')
    assert c.ok(kv.RETRIEVE, b'large', length=LARGE, into='/tmp/back') == LARGE
    assert t.g.run('sha256sum </tmp/back').split()[0] == want
    t.g.run('rm /tmp/back')
    c.ok(kv.DELETE, b'large')
    t.disconnect()


def digests(t):
    c = t.connect('--hdr-digest --data-digest')
    kv.check_values(c, [1, 8193, 300000])
    t.disconnect()


def load(t, seconds):
    """In the guest: stores and reads the same value until it is told to stop; counts."""
    return (f'(while [ ! -e /tmp/stop ]; do nvme io-passthru /dev/ng0n1 --opcode=1 -n 1 '
            f'--cdw2=1 --cdw10=100000 --cdw11=4 --data-len=100000 -w --input-file=/tmp/load '
            f'>/dev/null 2>&1 && echo >>/tmp/done || {{ echo >>/tmp/failed; sleep 0.1; }}; done) '
            f'>/dev/null 2>&1 & sleep {seconds}')


def reconnect(t):
    """Disconnected and connected while commands run: they fail or end well, none hangs."""
    c = t.connect()
    c.make('/tmp/load', 100000)
    t.g.run('rm -f /tmp/stop /tmp/done /tmp/failed; ' + load(t, 1))
    for _ in range(3):
        t.disconnect()
        t.connect()
        t.g.run('sleep 0.5')
    t.g.run('touch /tmp/stop')
    assert int(t.g.run('cat /tmp/done | wc -l')) > 3
    c.ok(kv.EXIST, b'\1\0\0\0')
    t.disconnect()


def killed(t):
    """The daemon is killed and comes back: the host connects again by itself."""
    c = t.connect('--reconnect-delay=1 --ctrl-loss-tmo=120')
    c.make('/tmp/load', 100000)
    t.g.run('rm -f /tmp/stop /tmp/done /tmp/failed; ' + load(t, 1))
    os.kill(t.d.pid, signal.SIGKILL)
    t.d.process.wait()
    t.d.process.stderr.close()
    t.g.run('sleep 1')
    t.start()
    t.g.wait('[ "$(cat /sys/class/nvme/nvme0/state)" = live ]')
    t.g.run('touch /tmp/stop; sleep 1')
    c = kv.Kv(t.g, t.peal, t.d.uri)
    kv.check_values(c, [70000])
    t.disconnect()


def main():
    peald, peal = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='peal-linux.') as folder:
        t = Test(peald, peal, folder)
        try:
            say(f'{t.g.run("uname -r")} is up')
            for step in (discover, commands, large, digests, reconnect, killed):
                step(t)
                say(step.__name__)
            out = t.g.run('dmesg | grep -E "WARNING:|BUG:|Oops|Call Trace" || true')
            assert out == '', out
        finally:
            t.g.kill()
            t.d.stop()
    assert t.d.process.returncode == 0
    say('done')


if __name__ == '__main__':
    main()
