# SPDX-License-Identifier: Apache-2.0
"""What the crash tests stand on: file systems on loop devices, files with faults or a log of writes
behind FUSE (qemu-storage-daemon), a daemon over them, and the load that judges (crash_load.c).
"""

import contextlib
import fcntl
import json
import os
import signal
import struct
import subprocess
import tempfile
import time

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']
LOAD = os.environ['CRASH_LOAD']
EXT4_IOC_SHUTDOWN = 0x8004587d
NO_LOG_FLUSH = 2


class Skip(Exception):
    """This machine can't do it; the text says why."""


def run(*args, **kw):
    return subprocess.run(args, capture_output=True, text=True, check=True, timeout=120,
                          **kw).stdout


def can_mount():
    if os.geteuid() != 0:
        raise Skip('not root, so no file system can be mounted')
    if not os.path.exists('/dev/loop-control'):
        raise Skip('no loop devices here')


class LoopFs:
    """A file system with a journal, on a file. Mounted between mount() and unmount()."""

    def __init__(self, folder, mib):
        can_mount()
        self.image = f'{folder}/fs.img'
        self.at = f'{folder}/mnt'
        os.mkdir(self.at)
        with open(self.image, 'wb') as f:
            f.truncate(mib << 20)
        try:
            run('mkfs.ext4', '-q', '-F', '-m', '0', self.image)
        except FileNotFoundError as e:
            raise Skip('no mkfs.ext4') from e
        self.is_mounted = False

    def mount(self):
        try:
            run('mount', '-o', 'loop', self.image, self.at)
        except subprocess.CalledProcessError as e:
            raise Skip(f'mount -o loop: {e.stderr.strip()}') from e
        self.is_mounted = True

    def unmount(self):
        # A daemon that was killed may hold it until its I/O has ended.
        for _ in range(500):
            if subprocess.run(['umount', self.at], capture_output=True, check=False,
                              timeout=60).returncode == 0:
                self.is_mounted = False
                return
            time.sleep(0.02)
        run('umount', self.at)

    def power_cut(self):
        fd = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack('I', NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def close(self):
        if self.is_mounted:
            self.unmount()
        os.unlink(self.image)


def one_at_a_time(point):
    """QEMU before 10.1 reads the next request over the data of a write that is under way ("fuse:
    Copy write buffer content before polling"), so it gets one write at a time.
    """
    if not os.path.isdir('/sys/fs/fuse/connections'):
        raise Skip('no /sys/fs/fuse/connections')
    if not os.listdir('/sys/fs/fuse/connections'):
        subprocess.run(['mount', '-t', 'fusectl', 'fusectl', '/sys/fs/fuse/connections'],
                       capture_output=True, check=False)
    at = f'/sys/fs/fuse/connections/{os.minor(os.stat(point).st_dev)}'
    try:
        for name in ('max_background', 'congestion_threshold'):
            with open(f'{at}/{name}', 'w', encoding='ascii') as f:
                f.write('1')
    except OSError as e:
        raise Skip(f'{at}: {e.strerror}') from e


@contextlib.contextmanager
def fuse(folder, image, node, *more):
    """image behind a block node of QEMU's, as a file. node: its options; more: other nodes."""
    point = f'{folder}/fuse'
    open(point, 'wb').close()
    nodes = [{'driver': 'file', 'node-name': 'file', 'filename': image}, *more,
             dict(node, **{'node-name': 'top'})]
    args = ['qemu-storage-daemon']
    for n in nodes:
        args += ['--blockdev', json.dumps(n)]
    args += ['--export', f'type=fuse,id=e,node-name=top,mountpoint={point},writable=on']
    try:
        p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as e:
        raise Skip('no qemu-storage-daemon (Debian: qemu-system-common)') from e
    try:
        for _ in range(500):
            if os.path.getsize(point) or p.poll() is not None:
                break
            time.sleep(0.02)
        if not os.path.getsize(point):
            p.kill()
            raise Skip(f'no FUSE export: {p.communicate()[1].strip()}')
        one_at_a_time(point)
        yield point
    finally:
        p.terminate()
        p.wait(60)


class Daemon:
    """peald over one file or folder, values that change. level: flush, ssd or dram."""

    def __init__(self, folder, data, level, ssd='240M', dram='16M'):
        self.sock = tempfile.mkdtemp(prefix='peal-crash.')
        self.uri = f'vfu:{self.sock}/cntrl'
        self.conf = f'{folder}/peald.yaml'
        self.level = level
        with open(self.conf, 'w', encoding='ascii') as f:
            f.write(f'namespaces:\n- name: kv\n  tiers: dram {dram} | ssd {data} {ssd}\n'
                    f'  immutable: no\n  value_max: 2M\n{LEVELS[level]}')
        self.p = None
        self.log = ''

    def start(self, expect='listening on', early=False):
        """Until all that its file holds is known, too, or (early) not: then a miss says nothing."""
        known = early or expect != 'listening on'
        listens = False
        self.p = subprocess.Popen([PEALD, '--dir', self.sock, '--config', self.conf],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.log = ''
        for line in self.p.stderr:
            self.log += line
            listens |= expect in line
            known |= 'SSD tier is known' in line
            if listens and known:
                break
        else:
            raise AssertionError('peald: expected "' + expect + '" in its log:\n' + self.log)

    def kill(self, sig=signal.SIGKILL):
        if self.p:
            self.p.send_signal(sig)
            self.p.communicate(timeout=120)
            self.p = None

    def load(self, state, seed, nr, **env):
        return subprocess.Popen([LOAD, self.uri, state, 'load', self.level, str(seed), str(nr)],
                                env=dict(os.environ, **env))

    def check(self, state, *args):
        """{there, must, lost, bytes, over}; what is wrong ends the test."""
        done = subprocess.run([LOAD, self.uri, state, 'check', *args], capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 0, f'{done.stdout}{done.stderr}'
        w = done.stdout.split()
        return {w[i]: int(w[i + 1]) for i in range(0, 10, 2)}

    def tier(self, name):
        """What `stats` says of it."""
        got = json.loads(run(PEAL, '-u', self.uri, 'rpc', 'stats'))
        return next(t for t in got['namespaces'][0]['tiers'] if t['name'] == name)

    def keys(self):
        return len(run(PEAL, '-u', self.uri, 'ls').splitlines())

    def close(self):
        self.kill()
        for name in ('cntrl', 'rpc'):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f'{self.sock}/{name}')
        os.rmdir(self.sock)


LEVELS = {
    'flush': '',
    'ssd': '  ack: ssd\n',
    'dram': '  write: through\n',
}


def fsck(path):
    """No crash leaves damage."""
    done = subprocess.run([PEAL, 'fsck', '--data', path], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, f'peal fsck: status {done.returncode}\n{done.stdout}{done.stderr}'
