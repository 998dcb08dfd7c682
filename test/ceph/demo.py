#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two daemons over one pool of a real Ceph cluster, on this machine: what is stored through one is
retrieved through the other by its hash alone; what `script/demo --ceph` shows. Exit status 0 only
when every byte was right and the OSD was asked exactly once for each key.

usage: PEALD=... PYTHONPATH=BUILD/python:test/ceph:test/peer demo.py
"""

import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import mini_ceph
import pealkv
import peer

NR, VALUE = 128, 1 << 20  # one read of the OSD each: a piece of a value
DRAM, SSD = '256M', '512M'


class Wrong(Exception):
    """What was to be shown isn't so."""


def check(is_so, what):
    if not is_so:
        raise Wrong(what)


def line(name, text=''):
    print(f'  {name:<11}{text}', flush=True)


def key_of(i):
    """A hash, as an engine has one of each prefix of tokens."""
    return hashlib.blake2b(f'demo {i}'.encode(), digest_size=16).digest()


def value_of(key):
    """The generator: nothing but the key says what is right."""
    return hashlib.shake_128(key).digest(VALUE)


class Node:
    """A daemon and a client of it."""

    def __init__(self, c, top, name):
        self.top, self.name = f'{top}/{name}', name
        os.makedirs(f'{self.top}/ssd', exist_ok=True)
        self.config = f'{self.top}/peald.yaml'
        self.tiers = (f'dram {DRAM} | ssd {self.top}/ssd {SSD} | '
                      f'rados pool=kv ns=kv user=peal conf={c.conf}')
        with open(self.config, 'w', encoding='utf-8') as f:
            f.write(f'namespaces:\n  - name: kv\n    ack: rados\n    tiers: {self.tiers}\n')
        self.start()

    def start(self):
        self.daemon = peer.Daemon(os.environ['PEALD'], self.top, '--config', self.config)
        while 'answers' not in self.daemon.log:
            said = self.daemon.process.stderr.readline()
            check(said, f'{self.name} ended:\n{self.daemon.log}')
            self.daemon.log += said
        self.store = pealkv.open(self.daemon.uri, timeout=10)

    def stop(self):
        self.store.close()
        self.daemon.stop()
        check(self.daemon.process.returncode == 0, f'{self.name}:\n{self.daemon.log}')
        check(' alert ' not in self.daemon.log, f'{self.name}:\n{self.daemon.log}')


class Osd:
    """How many reads of objects it has answered, as it counts them itself; lists are none."""

    def __init__(self, c):
        self.sock = f'{c.folder}/run/osd.0.asok'

    def reads(self):
        out = subprocess.run(['ceph', '--admin-daemon', self.sock, 'perf', 'dump', 'osd'],
                             capture_output=True, check=True, timeout=60).stdout
        return json.loads(out)['osd']['op_r']


class Figures:
    """Of each kind of call: how long they took."""

    def __init__(self):
        self.rows, self.nr_compared, self.nr_wrong = [], 0, 0

    def put_all(self, node, what):
        times = []
        for i in range(NR):
            key = key_of(i)
            value = value_of(key)
            begin = time.monotonic()
            node.store.put(key, value)
            times.append(time.monotonic() - begin)
        self.rows.append((what, times))

    def get_all(self, node, what):
        """How many are there. Every byte of each is compared, outside of the time."""
        times, buf = [], bytearray(VALUE)
        for i in range(NR):
            key = key_of(i)
            begin = time.monotonic()
            got = node.store.get_into(key, buf)
            times.append(time.monotonic() - begin)
            if got is None:
                times.pop()
                continue
            self.compare(buf[:got], value_of(key))
        self.rows.append((what, times))
        return len(times)

    def compare(self, got, want):
        self.nr_compared += len(want)
        if got != want:
            self.nr_wrong += sum(a != b for a, b in zip(got, want)) + abs(len(got) - len(want))

    def show(self):
        print()
        print(f'  {"":<25}{"count":>6}{"bytes":>11}{"GB/s":>7}{"p50":>10}{"p99":>10}{"max":>10}')
        for what, times in self.rows:
            ms = [t * 1e3 for t in sorted(times)]
            rate = len(ms) * VALUE / sum(times) / 1e9
            print(f'  {what:<25}{len(ms):>6}{len(ms) * VALUE >> 20:>7} MiB{rate:>7.2f}'
                  + ''.join(f'{v:>7.2f} ms' for v in (
                      statistics.median(ms), ms[min(len(ms) - 1, len(ms) * 99 // 100)], ms[-1])))
        print('  one client, one call at a time; the times are of its calls alone')
        print()
        print(f'  wrong bytes: {self.nr_wrong} of {self.nr_compared:,} (every byte of every value '
              'compared)')


def rados(c, *args, **more):
    return subprocess.run(['rados', '-c', c.conf, '--id', 'peal', '-p', 'kv', '-N', 'kv', *args],
                          capture_output=True, check=True, timeout=60, **more).stdout


def show_objects(c):
    """The pool as Ceph's own tool has it."""
    names = rados(c, 'ls', text=True).split()
    check(sorted(names) == sorted(key_of(i).hex() for i in range(NR)), 'rados ls: other objects')
    one = key_of(NR // 2)
    stat = rados(c, 'stat', one.hex(), text=True).strip()
    check(stat.endswith(f'size {VALUE}'), stat)
    got = hashlib.sha256(rados(c, 'get', one.hex(), '-')).hexdigest()
    want = hashlib.sha256(value_of(one)).hexdigest()
    check(got == want, 'rados get: other bytes')
    line('rados ls', f'{len(names)} objects; the name of one is its key: {one.hex()}')
    line('rados stat', f'size {VALUE:,}: the value, its checksums are attributes')
    line('rados get', f'| sha256sum  {got}')
    line('generator', f'| sha256sum  {want}')


def get_again(osd, figures, node, what):
    before = osd.reads()
    nr = figures.get_all(node, what)
    check(nr == NR, f'{node.name} had {nr} of {NR} values')
    return before, osd.reads()


def machine():
    cpu = re.search(r'^model name\s*: (.*)$', open('/proc/cpuinfo', encoding='utf-8').read(), re.M)
    return f'{os.cpu_count()} cores ({cpu.group(1) if cpu else os.uname().machine})'


def show(c, top, nodes, took_s):
    figures, osd = Figures(), Osd(c)
    version = subprocess.run(['ceph-osd', '--version'], capture_output=True, text=True, check=True,
                             timeout=60).stdout.split()[2]
    line('machine', machine())
    line('cluster', f'Ceph {version}: a monitor, an OSD (BlueStore in a file), pool kv, cephx on;')
    line('', f'in {c.folder}, ready after {took_s:.1f} s')
    alpha, beta = nodes[:] = Node(c, top, 'alpha'), Node(c, top, 'beta')
    line('two peald', f'alpha and beta, each of dram {DRAM} | ssd {SSD} | rados pool=kv ns=kv,')
    line('', "empty, in folders of their own; client.peal: osd 'allow rw pool=kv namespace=kv'")
    print()
    figures.put_all(alpha, 'put  alpha: to the pool')
    line('stored', f'{NR} values of 1 MiB through alpha, each in the pool when it is acknowledged')
    show_objects(c)
    before, after = get_again(osd, figures, beta, 'get  beta: from the pool')
    line('retrieved', f'{NR} of {NR} through beta, which has never heard of alpha')
    line('OSD reads', f'{before:,} -> {after:,}: {after - before} more, one for each key')
    check(after - before == NR, f'{after - before} reads of the OSD, expected {NR}')
    before, after = get_again(osd, figures, beta, 'get  beta: from its DRAM')
    line('again', f'{NR} of {NR} from the memory of beta: {after - before} reads of the OSD')
    check(after == before, 'the OSD was read')
    alpha.stop()
    alpha.start()
    before, after = get_again(osd, figures, alpha, 'get  alpha: from its SSD')
    line('restarted', f'{NR} of {NR} from the SSD of alpha: {after - before} reads of the OSD')
    check(after == before, 'the OSD was read')
    alpha.stop()
    beta.stop()
    figures.show()
    check(not figures.nr_wrong, 'bytes were wrong')


def main():
    print()
    print('Peal: one pool of Ceph below two daemons, which share its blocks by hash alone')
    print()
    begin, nodes = time.monotonic(), []
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda nr, _: sys.exit(128 + nr))
    try:
        with tempfile.TemporaryDirectory(prefix='peal-nodes.') as top, mini_ceph.cluster() as c:
            show(c, top, nodes, time.monotonic() - begin)
    except (Wrong, mini_ceph.Failed, pealkv.PealError, subprocess.SubprocessError) as e:
        print(f'demo: {e}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for n in nodes:
            n.daemon.process.kill()
    print()
    return 0


if __name__ == '__main__':
    sys.exit(main())
