#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stock Linux proves who it is: Debian 13's kernel (linux-image-6.12.*+deb13-cloud-amd64,
CONFIG_NVME_HOST_AUTH) in an emulated guest, secrets that its nvme-cli made, peald on this machine's
loopback.

Host alone and both ways, each kind of secret; a wrong secret, none, a host that isn't known; a
daemon that is killed and comes back.

usage: linux_auth.py PEALD PEAL
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), 'qemu_vfu')]
# pylint: disable=wrong-import-position
import guest
import kv
import peer

HOSTS = {kind: f'nqn.2014-08.org.peal:guest{kind}' for kind in range(4)}
STARTED = time.monotonic()


def say(what):
    print(f'{time.monotonic() - STARTED:6.1f} s  {what}', flush=True)


class Test:
    def __init__(self, peald, peal, folder):
        self.peald, self.peal, self.folder = peald, peal, folder
        self.port, self.d = '0', None
        self.kit = guest.Kit('trixie')
        self.g = guest.Guest(folder, self.kit, [], (), ('usr/sbin/nvme',), has_net=True)
        self.host, self.ctrl = {}, {}
        for kind, nqn in HOSTS.items():
            self.host[kind] = self.secret(kind, nqn)
            self.ctrl[kind] = self.secret(kind, nqn)
        self.file = f'{folder}/secrets'
        with open(os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as f:
            for kind, nqn in HOSTS.items():
                f.write(f'{nqn} {self.host[kind]} {self.ctrl[kind]}\n')
        self.start()

    def secret(self, kind, nqn):
        return subprocess.run(self.kit.program('usr/sbin/nvme') + [
            'gen-dhchap-key', '-m', str(kind), '-n', nqn], stdout=subprocess.PIPE, text=True,
            check=True).stdout.strip()

    def start(self):
        self.d = peer.Daemon(self.peald, self.folder, '--dram', '256M', '--ns', 'kv=224M,rw',
                             '--tcp', self.port, '--id', 'linux', '--tcp-secrets', self.file)
        found = re.search(r'tcp: 127.0.0.1:(\d+) serves (\S+)', self.d.log)
        self.port, self.nqn = found[1], found[2]

    def command(self, nqn, more):
        return (f'nvme connect -t tcp -a {guest.HOST} -s {self.port} -n {self.nqn} '
                f'--hostnqn={nqn} {more}')

    def connect(self, nqn, more):
        self.g.run(self.command(nqn, more))
        self.g.wait('[ -e /dev/ng0n1 ]')
        return kv.Kv(self.g, self.peal, self.d.uri)

    def refused(self, nqn, more):
        status, out = self.g.status(self.command(nqn, more))
        assert status != 0, out
        self.g.wait('[ ! -e /dev/nvme0 ]')
        return out

    def disconnect(self):
        self.g.run(f'nvme disconnect -n {self.nqn}')
        self.g.wait('[ ! -e /dev/ng0n1 ]')


def kinds(t):
    for kind, nqn in HOSTS.items():
        c = t.connect(nqn, f'--dhchap-secret={t.host[kind]}')
        kv.check_values(c, [1, 8193, 300000])
        t.disconnect()
    out = t.g.run('dmesg | grep authenticated')
    assert 'authenticated with hash hmac(sha512) dhgroup ffdhe2048' in out, out


def both(t):
    for kind, nqn in HOSTS.items():
        c = t.connect(nqn, f'--dhchap-secret={t.host[kind]} --dhchap-ctrl-secret={t.ctrl[kind]} '
                           '--hdr-digest --data-digest --nr-io-queues=1')
        kv.check_values(c, [70000])
        t.disconnect()
    out = t.g.run('dmesg | grep "controller authenticated" | wc -l')
    assert int(out) >= len(HOSTS), out


def wrong(t):
    """Whose secret is wrong, that of neither, or ours as the host has it."""
    t.refused(HOSTS[1], f'--dhchap-secret={t.host[0]}')
    t.refused(HOSTS[1], f'--dhchap-secret={t.secret(1, HOSTS[1])}')
    t.refused(HOSTS[1], '')
    t.refused('nqn.2014-08.org.peal:nobody', f'--dhchap-secret={t.host[1]}')
    t.refused(HOSTS[1], f'--dhchap-secret={t.host[1]} '
                        f'--dhchap-ctrl-secret={t.secret(1, HOSTS[1])}')
    t.connect(HOSTS[1], f'--dhchap-secret={t.host[1]}')
    t.disconnect()


def killed(t):
    """The daemon is killed and comes back: the host proves itself again."""
    t.connect(HOSTS[1], f'--dhchap-secret={t.host[1]} --dhchap-ctrl-secret={t.ctrl[1]} '
                        '--reconnect-delay=1 --ctrl-loss-tmo=120')
    os.kill(t.d.pid, signal.SIGKILL)
    t.d.process.wait()
    t.d.process.stderr.close()
    t.g.wait('[ "$(cat /sys/class/nvme/nvme0/state)" = connecting ]')
    t.start()
    t.g.wait('[ "$(cat /sys/class/nvme/nvme0/state)" = live ]')
    kv.check_values(kv.Kv(t.g, t.peal, t.d.uri), [70000])
    t.disconnect()


def main():
    peald, peal = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='peal-linux.') as folder:
        t = Test(peald, peal, folder)
        try:
            say(f'{t.g.run("uname -r")} is up')
            for step in (kinds, both, wrong, killed):
                step(t)
                say(step.__name__)
            out = t.g.run('dmesg | grep -E "WARNING:|BUG:|Oops|Call Trace" || true')
            assert out == '', out
        finally:
            t.g.kill()
            t.d.stop()
            print(t.d.log)
    assert t.d.process.returncode == 0
    assert 'DHHC-1' not in t.d.log
    say('done')


if __name__ == '__main__':
    main()
