# SPDX-License-Identifier: Apache-2.0
"""What the sweeps share: a program under nth_run whose n-th event can be told to fail (nth.h)."""

import argparse
import datetime
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time

ALLOCS, CALLS, ALL_AFTER = 1, 2, 4
FIELDS = ('mode', 'count', 'fail_at', 'nr_failed', 'nr_live', 'is_on', 'pid', 'listener',
          'base', 'nr_frames')
NR_FRAMES = 12
TIMEOUT = 60
WRONG_MAX = 25
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = f'{TOP}/bench/results/nth.tsv'


class Page:
    """The shared page of nth.h."""

    def __init__(self):
        with tempfile.NamedTemporaryFile(prefix='peal-nth.', delete=False) as f:
            f.truncate(4096)
            self.path = f.name
            self.mem = mmap.mmap(f.fileno(), 4096)
        self.words = memoryview(self.mem).cast('Q')

    def __getattr__(self, name):
        return self.words[FIELDS.index(name)]

    def put(self, name, value):
        self.words[FIELDS.index(name)] = value

    def renew(self):
        """For another run of a program."""
        for name in FIELDS:
            self.put(name, 0)

    def arm(self, n, mode=ALLOCS | CALLS):
        """From now on events count; the n-th fails."""
        self.put('mode', 0)
        for name in 'count', 'nr_failed', 'nr_frames':
            self.put(name, 0)
        self.put('fail_at', n)
        self.put('mode', mode)

    def disarm(self):
        """How many events failed."""
        self.put('mode', 0)
        return self.nr_failed

    @property
    def what(self):
        raw = self.mem[8 * (len(FIELDS) + NR_FRAMES):][:168]
        return raw[:raw.index(0)].decode(errors='replace')

    def frames(self):
        return list(self.words[len(FIELDS):len(FIELDS) + self.nr_frames])

    def close(self):
        self.words.release()
        self.mem.close()
        os.unlink(self.path)


class Tools:
    """Where nth_run and nth_shim.so are: NTH_RUN, NTH_SHIM."""

    def __init__(self):
        self.run = os.environ['NTH_RUN']
        self.shim = os.environ['NTH_SHIM']
        page = Page()
        done = subprocess.run(self.command(page, ['true']), check=False, capture_output=True)
        page.close()
        if done.returncode == 77:
            print('skip: this kernel has no seccomp user notification')
            sys.exit(77)

    def command(self, page, args):
        return [self.run, page.path, self.shim, *args]


def where(page, program):
    """The place of an allocation that failed, by the debug information of `program`."""
    addrs = [hex(a - page.base - 1) for a in page.frames() if 0 <= a - page.base < 1 << 30]
    if not addrs:
        return ''
    out = subprocess.run(['addr2line', '-sfe', program, *addrs], check=False,
                         capture_output=True, text=True).stdout.splitlines()
    lines = [f'{fn} ({at})' for fn, at in zip(out[::2], out[1::2]) if fn != '??']
    return ' < '.join(lines[:5])


def parser(doc):
    """What all sweeps take."""
    raw = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(description=doc, formatter_class=raw)
    p.add_argument('--sample', type=int, default=0, metavar='N',
                   help='about N events of each thing, which ones by the seed; 0: all')
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(3), 'little'))
    p.add_argument('--all-after', action='store_true', help='everything from the n-th on fails')
    p.add_argument('--only', metavar='NAME')
    p.add_argument('--record', action='store_true', help='a line to bench/results/nth.tsv')
    p.add_argument('--verbose', action='store_true')
    return p


def mode(opts):
    return ALLOCS | CALLS | (ALL_AFTER if opts.all_after else 0)


def finish(opts, name, began, counts):
    """The last line, the record, the exit status."""
    text = ', '.join(f'{v} {k}' for k, v in counts.items())
    print(f'{name}: {text}; {time.time() - began:.0f} s, seed {opts.seed}')
    if opts.record:
        git = ['git', '-C', TOP]
        commit = subprocess.run([*git, 'rev-parse', '--short', 'HEAD'], check=True, text=True,
                                capture_output=True).stdout.strip()
        if subprocess.run([*git, 'diff', '--quiet', 'HEAD'], check=False).returncode:
            commit += '+'
        is_new = not os.path.exists(RESULTS)
        with open(RESULTS, 'a', encoding='ascii') as f:
            if is_new:
                f.write('date\tcommit\tsweep\tsample\tall after\tseconds\tcounts\n')
            f.write('\t'.join(map(str, (datetime.date.today(), commit, name, opts.sample or 'all',
                                       'yes' if opts.all_after else 'no',
                                       round(time.time() - began), text))) + '\n')
    sys.exit(1 if counts.get('wrong') else 0)


def open_fds(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def nr_maps(pid):
    with open(f'/proc/{pid}/maps', encoding='ascii') as f:
        return len(f.readlines())


def unpack(fmt, data, at=0):
    return struct.unpack_from(fmt, data, at)
