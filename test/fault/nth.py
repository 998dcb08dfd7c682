# SPDX-License-Identifier: Apache-2.0
"""What the sweeps share: a program under nth_run whose n-th event can be told to fail (nth.h)."""

import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile

ALLOCS, CALLS, ALL_AFTER = 1, 2, 4
FIELDS = ('mode', 'count', 'fail_at', 'nr_failed', 'nr_live', 'is_on', 'pid', 'listener',
          'nr_frames')
NR_FRAMES = 12
TIMEOUT = 60


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
    lines = []
    try:
        with open(f'/proc/{page.pid}/maps', encoding='ascii') as f:
            maps = f.read()
    except OSError:
        maps = ''
    m = re.search(r'^([0-9a-f]+)-\S+ \S+ 0+ .*' + re.escape(os.path.realpath(program)), maps, re.M)
    if not m:
        return ''
    base = int(m.group(1), 16)
    addrs = [hex(a - base - 1) for a in page.frames() if 0 <= a - base < 1 << 30]
    if addrs:
        out = subprocess.run(['addr2line', '-sfe', program, *addrs], check=False,
                             capture_output=True, text=True).stdout.splitlines()
        lines = [f'{fn} ({at})' for fn, at in zip(out[::2], out[1::2]) if fn != '??']
    return ' < '.join(lines[:5])


def open_fds(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def nr_maps(pid):
    with open(f'/proc/{pid}/maps', encoding='ascii') as f:
        return len(f.readlines())


def unpack(fmt, data, at=0):
    return struct.unpack_from(fmt, data, at)
