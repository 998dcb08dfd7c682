#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Crashes under load of a daemon with an SSD tier, on real file systems.

    crash.py kill --nr N        SIGKILL, N times: half at level ssd, half at level dram
    crash.py shutdown --nr N    EXT4_IOC_SHUTDOWN (an instant power cut), N times
    crash.py full               a file system without room
    crash.py errors --nr N      reads, writes and syncs that fail (blkdebug), N daemons each
    crash.py log --nr N         every state that a power cut may leave of a log of writes
                                (blklogwrites): N flush points and N random subsets; 0: all
    crash.py soak --nr N        a log of 16 MiB in segments of 512 KiB goes round N times, values
                                replaced, deleted, evicted and read meanwhile, with clean stops and
                                kills between
    --record                    adds a line to bench/results/crash.tsv

The rule, for each key: the bytes of a generation that may be there, or a miss; never one older
than was acknowledged; and what was durable (level ssd: acknowledged; level flush: before a flush)
is there, unless a put or del over it was under way. Short forms are tests; `crash.py kill --nr 200
--record`, `crash.py shutdown --nr 50 --record`, `crash.py log --nr 0 --record` and `crash.py soak
--nr 3000 --record` are the long ones. $PEALD, $PEAL_CLI, $CRASH_LOAD
name the programs; $PEAL_SEED the seed.
"""

import argparse
import datetime
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import crash_rig as rig

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = f'{TOP}/bench/results/crash.tsv'
LIVES = 4  # of one file system: if the log wrapped, evicted would look like lost
OPS = 600  # of one life
KEYS = 600
SOAK_OPS = 4000  # of one life there: about 30 rounds
DEPTH = 8  # requests of the load under way
SEED = int(os.environ.get('PEAL_SEED', '0')) or random.randrange(1 << 30)


def judge(d, state, sums, loads):
    """What lives have left; at level ssd only what was being put or deleted over may be gone: that
    of `loads` loads, since one that begins while the daemon recovers isn't judged before."""
    got = d.check(state)
    for k, v in got.items():
        sums[k] += v
    if d.level == 'ssd':
        assert got['lost'] == 0, f'acknowledged at level ssd and lost: {got}'
        assert got['over'] <= DEPTH * loads, f'more are gone than were under way: {got}'


def lives(folder, level, nr, how, sums):
    """One file system and the daemons that live on it, one after the other."""
    fs = rig.LoopFs(folder, 300)
    fs.mount()
    d = rig.Daemon(folder, f'{fs.at}/data', level)
    state = f'{folder}/state'
    loads = 0
    try:
        for life in range(nr):
            # The load of every third life begins while it recovers.
            early = life % 3 == 2
            d.start(early=early)
            if not early:
                judge(d, state, sums, loads)
                loads = 0
            loads += 1
            load = d.load(state, SEED + sums['lives'], OPS)
            time.sleep(random.uniform(0.02, 0.6))
            if how == 'shutdown':
                fs.power_cut()
                time.sleep(random.uniform(0, 0.05))
            d.kill()
            load.wait(60)
            if how == 'shutdown' or life == nr - 1:
                fs.unmount()
                fs.mount()
                rig.fsck(f'{fs.at}/data/kv.0.peal')
            sums['lives'] += 1
        d.start()
        judge(d, state, sums, loads)
    finally:
        d.close()
        fs.close()
        os.rmdir(fs.at)


def warm(folder, sums):
    """What the SSD holds is there after a kill: the hit rate before and after."""
    fs = rig.LoopFs(folder, 300)
    fs.mount()
    d = rig.Daemon(folder, f'{fs.at}/data', 'dram')
    try:
        d.start()
        d.load(f'{folder}/warm', SEED, 4 * OPS).wait(120)
        before = d.keys()
        d.kill()
        d.start()
        after = d.keys()
    finally:
        d.close()
        fs.close()
        os.rmdir(fs.at)
    print(f'warm: {before} keys before the kill, {after} after')
    assert after >= 0.95 * before > 0, (before, after)
    sums['before'] += before
    sums['after'] += after


def many(folder, how, nr):
    sums = {'lives': 0, 'there': 0, 'must': 0, 'lost': 0, 'bytes': 0, 'over': 0,
            'before': 0, 'after': 0}
    levels = ['ssd', 'dram']
    for level in levels if how == 'kill' else levels[:1]:
        left = nr // 2 if how == 'kill' else nr
        was = dict(sums)
        while left > 0:
            lives(folder, level, min(left, LIVES), how, sums)
            os.unlink(f'{folder}/state')
            left -= LIVES
        print(f'level {level}: {sums["lives"] - was["lives"]} lives, {sums["must"] - was["must"]} '
              f'values had to be there and were, {sums["lost"] - was["lost"]} acknowledged ones '
              f'lost, {(sums["bytes"] - was["bytes"]) / 1024:.0f} KiB, '
              f'{sums["over"] - was["over"]} gone while they were being put over')
    if how == 'kill':
        warm(folder, sums)
    return sums


def full(folder, _):
    """No room: refused, nothing left behind. A file that was made goes on when the rest fills."""
    fs = rig.LoopFs(folder, 96)
    fs.mount()
    state = f'{folder}/state'
    d = rig.Daemon(folder, f'{fs.at}/data', 'flush', ssd='200M')
    try:
        d.start('does not start')
        assert 'No space left' in d.log, d.log
        d.kill()
        assert not [n for n in os.listdir(f'{fs.at}/data') if n], os.listdir(f'{fs.at}/data')
        d.close()
        d = rig.Daemon(folder, f'{fs.at}/data', 'flush', ssd='64M')
        d.start()
        try:
            with open(f'{fs.at}/rest', 'wb') as f:
                while True:
                    f.write(bytes(1 << 16))
        except OSError:
            pass
        assert d.load(state, SEED, OPS).wait(120) == 0
        # It is smaller than what was put: evictions may take anything.
        d.kill()
        d.start()
        got = d.check(state, 'lossy')
        assert got['there'] > 0, got
        d.kill()
        rig.fsck(f'{fs.at}/data/kv.0.peal')
        return got
    finally:
        d.close()
        fs.close()


ERRORS = [
    ('write', [{'iotype': 'write', 'errno': 5}]),
    ('read', [{'iotype': 'read', 'errno': 5}]),
    ('both', [{'iotype': 'write', 'errno': 28}, {'iotype': 'read', 'errno': 5}]),
]


def errors_one(folder, name, rules, sums):
    image, state = f'{folder}/kv.img', f'{folder}/state'
    mib = 256
    with open(image, 'wb') as f:
        f.truncate(mib << 20)
    for p in (state, f'{folder}/fuse'):
        if os.path.exists(p):
            os.unlink(p)
    # Segments lie from 1 MiB on; a bad sector each few MiB.
    inject = [dict(r, event='none', once=False, sector=(random.randrange(2, mib - 1) << 11) +
                   random.randrange(2048)) for r in rules for _ in range(12)]
    node = {'driver': 'blkdebug', 'image': 'file', 'inject-error': inject}
    os.makedirs(f'{folder}/data', exist_ok=True)
    with rig.fuse(folder, image, node) as point:
        link = f'{folder}/data/kv.0.peal'
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(point, link)
        d = rig.Daemon(folder, f'{folder}/data', 'flush', ssd=f'{mib}M')
        try:
            for _ in range(3):
                d.start()
                got = d.check(state, 'lossy')
                sums['there'] += got['there']
                sums['lost'] += got['lost']
                d.load(state, SEED + sums['lives'], OPS).wait(120)
                d.kill()
                sums['lives'] += 1
        finally:
            d.close()
        os.unlink(link)
    print(f'{name}: {len(inject)} bad sectors: {got}')


def errors(folder, nr):
    sums = {'lives': 0, 'there': 0, 'lost': 0}
    for _ in range(max(1, nr // 3)):
        for name, rules in ERRORS:
            errors_one(folder, name, rules, sums)
    assert sums['there'] > 0
    return sums


class Log:
    """A log of writes in the format of dm-log-writes."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        magic, _, self.nr, self.sector = struct.unpack_from('<QQQI', self.data)
        assert magic == 0x6a736677736872, hex(magic)
        self.entries = []
        at = self.sector
        for _ in range(self.nr):
            sector, nr, flags, length = struct.unpack_from('<QQQQ', self.data, at)
            at += self.sector
            self.entries.append((sector * self.sector, nr * self.sector, flags, at))
            if not flags & 4:
                at += nr * self.sector
            assert length == 0

    def apply(self, f, i):
        off, n, flags, at = self.entries[i]
        if n:
            f.seek(off)
            f.write(bytes(n) if flags & 4 else self.data[at:at + n])

    def flushes(self):
        return [i for i, e in enumerate(self.entries) if e[2] & 1]


def log_make(folder, mib, nr_ops):
    image, log, state = f'{folder}/kv.img', f'{folder}/log', f'{folder}/state'
    for path, size in ((image, mib), (log, 1024)):
        with open(path, 'wb') as f:
            f.truncate(size << 20)
    node = {'driver': 'blklogwrites', 'file': 'file', 'log': 'log', 'log-sector-size': 512}
    more = {'driver': 'file', 'node-name': 'log', 'filename': log}
    os.mkdir(f'{folder}/data')
    with rig.fuse(folder, image, node, more) as point:
        os.symlink(point, f'{folder}/data/kv.0.peal')
        d = rig.Daemon(folder, f'{folder}/data', 'flush', ssd=f'{mib}M')
        try:
            d.start()
            assert d.load(state, SEED, nr_ops, CRASH_LOG=log).wait(120) == 0
            d.kill()
        finally:
            d.close()
    os.unlink(f'{folder}/data/kv.0.peal')
    return Log(log)


def log_states(folder):
    """[(entries, state)] of the flushes, each with what was begun until the end."""
    with open(f'{folder}/state', 'rb') as f:
        end = f.read()
    with open(f'{folder}/state.snaps', 'rb') as f:
        raw = f.read()
    words = len(end) // 8
    begun = struct.unpack(f'<{words}Q', end)
    out = [(0, [0] * words)]
    for at in range(0, len(raw), 8 + len(end)):
        nr, *st = struct.unpack_from(f'<{words + 1}Q', raw, at)
        out.append((nr, list(st)))
    for _, st in out:
        for k in range(KEYS):
            st[2 + 5 * k + 1] = 1
            st[2 + 5 * k + 2] = begun[2 + 5 * k + 2]
    return out


def log_check(folder, states, until):
    """The image in data/ is what a power cut left once entry `until` was durable."""
    st = [s for n, s in states if n <= until + 1][-1]
    with open(f'{folder}/now', 'wb') as f:
        f.write(struct.pack(f'<{len(st)}Q', *st))
    rig.fsck(f'{folder}/data/kv.0.peal')
    d = rig.Daemon(folder, f'{folder}/data', 'flush')
    try:
        d.start()
        return d.check(f'{folder}/now')
    finally:
        d.close()


def log_replay(folder, nr):
    log = log_make(folder, 96, 700)
    states = log_states(folder)
    flushes = log.flushes()
    # Recovery writes: it gets a copy.
    base, copy = f'{folder}/base', f'{folder}/data/kv.0.peal'
    with open(base, 'wb') as f:
        f.truncate(96 << 20)
    points = flushes if not nr or nr >= len(flushes) else sorted(random.sample(flushes, nr))
    sums = {'flushes': len(flushes), 'states': 0, 'there': 0, 'must': 0}
    done = -1
    for point in points:
        with open(base, 'r+b') as f:
            for i in range(done + 1, point + 1):
                log.apply(f, i)
        done = point
        after = [i for i in flushes if i > point]
        upto = after[0] if after else len(log.entries)
        for subset in (False, True):
            shutil.copyfile(base, copy)
            if subset:
                with open(copy, 'r+b') as f:
                    for i in range(point + 1, upto):
                        if random.random() < 0.5:
                            log.apply(f, i)
            got = log_check(folder, states, point)
            sums['states'] += 1
            sums['there'] += got['there']
            sums['must'] += got['must']
    print(f'{len(log.entries)} entries, {len(flushes)} flushes, {len(states) - 1} by a client')
    assert sums['must'] > 0
    return sums


def soak(folder, nr):
    """The log goes round and round: what is read is right, and the tier stays within its file."""
    state, data, mib = f'{folder}/state', f'{folder}/data', 16
    os.mkdir(data)
    d = rig.Daemon(folder, data, 'dram', ssd=f'{mib}M', dram='12M')
    sums = {'rounds': 0, 'lives': 0, 'there': 0, 'kills': 0}
    try:
        while sums['rounds'] < nr:
            d.start()
            # What has been evicted may be gone; what is there must be right.
            sums['there'] += d.check(state, 'lossy')['there'] if sums['lives'] else 0
            assert d.load(state, SEED + sums['lives'], SOAK_OPS).wait(300) == 0
            sums['there'] += d.check(state, 'lossy')['there']
            tier = d.tier('ssd')
            assert tier['used_bytes'] <= tier['capacity_bytes'] <= mib << 20, tier
            assert tier['keys'] <= KEYS and not tier['bad_seals'], tier
            sums['rounds'] += sum(tier['health']['written_bytes'].values()) // (mib << 20)
            is_kill = sums['lives'] % 2
            d.kill(signal.SIGKILL if is_kill else signal.SIGTERM)
            sums['kills'] += is_kill
            sums['lives'] += 1
            assert os.path.getsize(f'{data}/kv.0.peal') <= mib << 20
            rig.fsck(f'{data}/kv.0.peal')
    finally:
        d.close()
    assert sums['there'] > 0
    return sums


def record(mode, got):
    commit = rig.run('git', '-C', TOP, 'rev-parse', '--short', 'HEAD').strip()
    if subprocess.run(['git', '-C', TOP, 'diff', '--quiet', 'HEAD'], check=False).returncode:
        commit += '+'
    is_new = not os.path.exists(RESULTS)
    with open(RESULTS, 'a', encoding='ascii') as f:
        if is_new:
            f.write('date\tcommit\ttest\tseed\tcounts\n')
        counts = ', '.join(f'{k} {v}' for k, v in got.items())
        f.write(f'{datetime.date.today()}\t{commit}\t{mode}\t{SEED}\t{counts}\n')


MODES = {
    'kill': lambda folder, nr: many(folder, 'kill', nr),
    'shutdown': lambda folder, nr: many(folder, 'shutdown', nr),
    'full': full,
    'errors': errors,
    'log': log_replay,
    'soak': soak,
}


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('mode', choices=MODES)
    ap.add_argument('--nr', type=int, default=8)
    ap.add_argument('--record', action='store_true')
    a = ap.parse_args()
    print(f'seed {SEED}', flush=True)
    random.seed(SEED)
    try:
        with tempfile.TemporaryDirectory(prefix='peal-crash.', dir='.') as folder:
            got = MODES[a.mode](os.path.abspath(folder), a.nr)
    except rig.Skip as e:
        print(f'skip: {e}')
        return 77
    print(f'{a.mode}: {got}')
    if a.record:
        record(a.mode, got)
    return 0


if __name__ == '__main__':
    sys.exit(main())
