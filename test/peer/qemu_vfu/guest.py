# SPDX-License-Identifier: Apache-2.0
"""A guest for tests: a stock QEMU with a stock Debian kernel, emulated, whose NVMe controllers
are vfio-user sockets.

    with Guest(folder, kit, [socket]) as g:
        print(g.run('nvme list'))

What it runs comes from the folder that `fetch` made (`kit`). Commands go over a second serial port
to a shell that is the guest's init.
"""

import glob
import json
import lzma
import os
import re
import socket
import stat
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBS = ('usr/lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu/ceph')
LOADER = 'usr/lib64/ld-linux-x86-64.so.2'
TIMEOUT = 400  # s, for one command or a boot; a loaded machine emulates slowly
TOOLS = ('usr/sbin/nvme', 'usr/sbin/mke2fs', 'usr/sbin/e2fsck')
FIO = 'usr/bin/fio'  # brings 50 MB of libraries along
APPLETS = ('sh mount umount cat echo ls mkdir rm stty uname insmod poweroff reboot dd cmp '
           'sha256sum head tail od printf sleep sync grep sed awk date dmesg truncate wc cut seq '
           'tr basename readlink true blkdiscard fstrim base64 sort uniq ip ping kill'
           ).split()
MEMORY_MIB = 640
MODULES = ['nvme', 'crc32c_generic', 'ext4']
NET_MODULES = ['virtio_pci', 'virtio_net', 'nvme_tcp', 'sch_netem']
HOST = '10.0.2.2'  # this machine's loopback, as a guest with a network sees it
# A controller that is gone is given up after seconds, not after half a minute.
PARAMETERS = {'nvme-core.ko': ' io_timeout=10 admin_timeout=10'}


def fetch(*args):
    """The folder that it made."""
    return subprocess.run([os.path.join(HERE, 'fetch'), *args], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


def module_read(path):
    with open(path, 'rb') as f:
        return lzma.decompress(f.read()) if path.endswith('.xz') else f.read()


class Kit:
    """The folder of `fetch`: how to start its programs, and what a guest is made of. kernel: which,
    as fetch knows it."""

    def __init__(self, kernel=None):
        self.root = f'{fetch()}/root'
        self.top = fetch(*[kernel] if kernel else [])
        self.kernel = glob.glob(f'{self.top}/kernel/boot/vmlinuz-*')[0]

    def program(self, path):
        """Runs from here with the libraries it was built for."""
        libs = ':'.join(f'{self.root}/{d}' for d in LIBS)
        return [f'{self.root}/{LOADER}', '--library-path', libs, f'{self.root}/{path}']

    def libs(self, path):
        """Paths below root of the libraries that a program needs."""
        cmd = self.program(path)
        out = subprocess.run(cmd[:-1] + ['--list', cmd[-1]], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
        return {os.path.relpath(p, self.root) for p in re.findall(r'=> (\S+)', out)} | {LOADER}

    def modules(self, names):
        """Module files, each behind those that it needs."""
        at = {}
        for path in glob.glob(f'{self.top}/kernel/**/modules/*/kernel/**/*.ko*', recursive=True):
            at[os.path.basename(path).split('.')[0].replace('-', '_')] = path
        order = []

        def add(name):
            path = at.get(name.replace('-', '_'))
            if not path or path in order:  # what isn't there is built in
                return
            needs = re.search(rb'\0depends=([^\0]*)\0', module_read(path)).group(1).decode()
            for need in filter(None, needs.split(',')):
                add(need)
            order.append(path)
        for name in names:
            add(name)
        return order


class Cpio:
    """An archive that a kernel unpacks (newc)."""

    def __init__(self):
        self.out = bytearray()
        self.known = set()
        self.ino = 0

    def entry(self, name, mode, data=b''):
        self.ino += 1
        name = name.encode() + b'\0'
        fields = (self.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        self.out += b'070701' + b''.join(b'%08X' % f for f in fields) + name
        self.out += bytes(-len(self.out) % 4)
        self.out += data
        self.out += bytes(-len(self.out) % 4)

    def folder(self, name):
        if name and name not in self.known:
            self.folder(os.path.dirname(name))
            self.known.add(name)
            self.entry(name, stat.S_IFDIR | 0o755)

    def link(self, name, to):
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFLNK | 0o777, to.encode())

    def file(self, name, data, mode=0o755):
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFREG | mode, data)

    def copy(self, name, path):
        with open(path, 'rb') as f:
            self.file(name, f.read())

    def end(self):
        self.entry('TRAILER!!!', 0)
        return self.out


def make_initramfs(kit, path, programs, tools, modules=()):
    """programs: of ours, static, by path here; they are found by their name there."""
    c = Cpio()
    for name in ('proc', 'sys', 'dev', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/lib64', 'etc'):
        c.folder(name)
    for name in ('bin', 'sbin', 'lib', 'lib64'):
        c.link(name, f'usr/{name}')
    c.entry('dev/console', stat.S_IFCHR | 0o600)
    c.copy('init', f'{HERE}/init')
    c.copy('usr/bin/busybox', f'{kit.root}/usr/bin/busybox')
    for name in APPLETS:
        c.link(f'usr/bin/{name}', 'busybox')
    needs = set()
    for tool in tools:
        needs |= {tool} | kit.libs(tool)
    for name in sorted(needs):
        c.copy(name, f'{kit.root}/{name}')
    c.link('usr/sbin/mkfs.ext4', 'mke2fs')
    order = kit.modules([*MODULES, *modules])
    names = [os.path.basename(module).removesuffix('.xz') for module in order]
    for name, module in zip(names, order):
        c.file(f'mods/{name}', module_read(module))
    lines = [f'/mods/{name}{PARAMETERS.get(name, "")}\n' for name in names]
    c.file('modules', ''.join(lines).encode(), 0o644)
    for program in programs:
        c.copy(f'usr/bin/{os.path.basename(program)}', program)
    with open(path, 'wb') as f:
        f.write(c.end())


class Guest:
    """A running guest. `console` is where its kernel writes."""

    def __init__(self, folder, kit, sockets, programs=(), tools=TOOLS, has_net=False):
        self.console = f'{folder}/console'
        path = f'{folder}/serial'
        initrd = f'{folder}/initrd{len(tools)}'
        if not os.path.exists(initrd):
            make_initramfs(kit, initrd, programs, tools, NET_MODULES if has_net else ())
        cmd = kit.program('usr/bin/qemu-system-x86_64') + [
            '-L', f'{kit.root}/usr/share/qemu', '-L', f'{kit.root}/usr/share/seabios',
            '-nodefaults', '-display', 'none', '-accel', 'tcg,thread=multi', '-cpu', 'qemu64',
            '-object', f'memory-backend-memfd,id=m0,size={MEMORY_MIB}M,share=on',
            '-machine', 'q35,memory-backend=m0', '-m', f'{MEMORY_MIB}', '-smp', '1',
            '-kernel', kit.kernel, '-initrd', initrd,
            '-append', 'console=ttyS0 quiet panic=-1 nokaslr mitigations=off hugepages=32',
            '-serial', f'file:{self.console}', '-serial', f'unix:{path},server=on,wait=off']
        for i, sock in enumerate(sockets):
            cmd += ['-device', json.dumps({'driver': 'vfio-user-pci', 'id': f'nvme{i}',
                                           'socket': {'type': 'unix', 'path': sock}})]
        if has_net:
            cmd += ['-netdev', 'user,id=n0', '-device', 'virtio-net-pci,netdev=n0,romfile=']
        self.log = open(f'{folder}/qemu.log', 'a+', encoding='utf-8')
        self.process = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.buf = b''
        while True:
            try:
                self.sock.connect(path)
                break
            except OSError:
                if self.process.poll() is not None:
                    self.fail('QEMU does not start')
                os.sched_yield()
        self.wait_up()
        if has_net:
            self.run('ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; '
                     'ip route add default via 10.0.2.2')

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def wait(self, condition):
        """Until a shell condition is true in the guest."""
        self.run(f'i=0; until {condition}; do i=$((i+1)); [ $i -lt 2000 ] || exit 1; '
                 'sleep 0.05; done')

    def fail(self, what):
        self.process.kill()
        self.log.seek(0)
        tail = ''
        if os.path.exists(self.console):
            with open(self.console, encoding='utf-8', errors='replace') as f:
                tail = f.read()[-4000:]
        sys.exit(f'{what}\nQEMU: {self.log.read()[-2000:]}\nconsole: {tail}')

    def line(self):
        while b'\n' not in self.buf:
            try:
                more = self.sock.recv(65536)
            except TimeoutError:
                self.fail(f'the guest says nothing for {TIMEOUT} s, after {self.buf[-500:]!r}')
            if not more:
                self.fail('QEMU ended')
            self.buf += more
        line, self.buf = self.buf.split(b'\n', 1)
        return line.decode(errors='replace').rstrip('\r')

    def wait_up(self):
        while not self.line().startswith('@@ up'):
            pass

    def send(self, command):
        self.sock.sendall(command.encode() + b'\n')

    def status(self, command):
        """Runs it: (exit status, what it printed)."""
        assert '\n' not in command
        self.send(command)
        out = []
        while True:
            line = self.line()
            if line.startswith('@@ '):
                return int(line[3:]), '\n'.join(out).removesuffix('\n')
            out.append(line)

    def run(self, command):
        """What it printed; it has to end well."""
        st, out = self.status(command)
        if st != 0:
            self.fail(f'guest: {command}: status {st}: {out}')
        return out

    def reboot(self):
        self.send('reboot -f')
        self.wait_up()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.sock.close()
