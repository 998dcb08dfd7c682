#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running peald of which the n-th allocation or system call fails under one thing that it is
asked for, n = 1, 2, ... until that meets no more: each KV, vendor, block and admin command, each
message, attach and detach, each method of the control plane, /metrics. That thing fails, or that
client is sent away; what comes back as good is right. Another client has its bytes meanwhile, the
same thing asked again works, and the daemon has as many descriptors and blocks as before.

usage: nth_daemon.py [--sample N] [--seed N] [--all-after] [--only NAME] [--record] PEALD
"""

import itertools
import random
import select
import sys
import tempfile
import time

import nth
from nth_ops import OPS, Failed, Subject, Wrong
from nth_rpc import RPC_OPS, Body, rpc
from nth_start import YAML, Start

SETTLE_S = 2


def explain(got, want):
    if isinstance(got, Body) and isinstance(want, Body):
        return got.differs(want)
    return f'{got!r:.200}, expected {want!r:.200}'


class Sweep:
    def __init__(self, tools, opts, ops):
        self.mode = nth.mode(opts)
        self.peald = opts.peald
        self.sample = opts.sample
        self.rng = random.Random(opts.seed)
        assert ops
        self.page = nth.Page()
        self.tmp = tempfile.TemporaryDirectory(prefix='peal-nth.')
        self.folder = self.tmp.name
        with open(f'{self.folder}/peald.yaml', 'w', encoding='ascii') as f:
            f.write(YAML.format(dir=self.folder).replace('record:', 'record_all: no, record:'))
        self.daemon = Start(tools, self.page, opts.peald, self.folder,
                            ['--config', f'{self.folder}/peald.yaml'])
        assert self.daemon.wait(), self.daemon.log
        self.other = Subject(self.folder, self.daemon)
        self.other.fill()
        self.pools = self.ask_pools()

    def ask_pools(self):
        """Requests that are free, leases that are held: what a command takes and gives back."""
        bare = Subject(self.folder, self.daemon, is_attached=False)
        stats, clients = (rpc(m)(bare).result for m in ('stats', 'client.list'))
        return [w['requests_free'] for w in stats['reactors']], [c['leases'] for c in clients]

    def check_pools(self):
        end = time.monotonic() + SETTLE_S
        while (now := self.ask_pools()) != self.pools:
            if time.monotonic() > end:
                raise Wrong(f'requests and leases are {now}, {self.pools} before')
            select.select([], [], [], 0.01)

    def state(self):
        return nth.open_fds(self.page.pid), self.page.nr_live

    def settle(self, want):
        """What the daemon lets go, it may let go a little later."""
        end = time.monotonic() + SETTLE_S
        while True:
            got = self.state()
            if got[0] <= want[0] and got[1] <= want[1]:
                break
            if time.monotonic() > end:
                return got
            select.select([], [], [], 0.001)
        return got

    def run(self, op, n):
        """One go with the n-th event failing (0: none): (what it answered or None, failed)."""
        subject = None if op.is_bare else Subject(self.folder, self.daemon)
        if op.before:
            op.before(subject)
        self.page.arm(n, self.mode)
        try:
            got = op.go(subject or Subject(self.folder, self.daemon, is_attached=False))
        except Failed as e:
            got = e
        failed = self.page.disarm()
        self.other.look()
        if op.after:
            op.after(self.other)
        if subject:
            subject.close()
        return got, failed

    def calm(self, op):
        """Without faults, until nothing changes any more: what it answers, what there is then."""
        last = None
        for _ in range(20):
            got, _ = self.run(op, 0)
            if isinstance(got, Failed):
                raise Wrong(f'fails without a fault: {got!r}')
            select.select([], [], [], 0.02)
            now = self.state()
            if now == last:
                break
            last = now
        return got, last

    def check_kept(self, op, n, state):
        """What is there now. More blocks than before may be a cache (of threads' stacks): again,
        then. Of descriptors there is none."""
        for _ in range(6):
            now = self.settle(state)
            if now[0] <= state[0] and now[1] <= state[1]:
                return state
            before, state = state, (state[0], now[1])
            self.run(op, n)
        raise Wrong(f'event {n}: descriptors and blocks are {now}, {before} before')

    def events(self, op):
        """Which are to fail: all, or some of as many as there were a moment ago."""
        if not self.sample:
            return itertools.count(1)
        self.run(op, 0)
        total = self.page.count
        return sorted(self.rng.sample(range(1, total + 1), min(total, self.sample)))

    def sweep(self, op):
        """(events, times that it failed)."""
        want, state = self.calm(op)
        nr = bad = 0
        for n in self.events(op):
            got, failed = self.run(op, n)
            if not failed:
                if self.sample:
                    continue  # fewer than a moment ago
                break
            nr += 1
            bad += isinstance(got, Failed)
            if not isinstance(got, Failed) and got != want:
                raise Wrong(f'event {n}: {explain(got, want)}')
            state = self.check_kept(op, n, state)
            again, _ = self.run(op, 0)
            if again != want:
                raise Wrong(f'behind event {n}: {explain(again, want)}')
        self.check_pools()
        return nr, bad

    def report(self, op, e):
        alive = self.daemon.process.poll() is None
        print(f'{op.name}: {e!r}\n  {self.page.what}\n  {nth.where(self.page, self.peald)}\n'
              f'  daemon {"lives" if alive else "has ended"}\n'
              + '\n'.join('  ' + x for x in self.daemon.log.splitlines()[-8:]), flush=True)

    def end(self):
        self.other.close()
        code = self.daemon.stop()
        self.page.close()
        self.tmp.cleanup()
        return code


def main():
    parser = nth.parser(__doc__)
    parser.add_argument('peald')
    opts = parser.parse_args()
    tools = nth.Tools()
    print(f'seed {opts.seed}', flush=True)
    began, wrong, events, refused = time.time(), 0, 0, 0
    ops = [op for op in OPS + RPC_OPS if opts.only in (None, op.name)]
    sweep = Sweep(tools, opts, ops)
    for op in ops:
        try:
            n, bad = sweep.sweep(op)
            events += n
            refused += bad
            if opts.verbose:
                print(f'{op.name}: {n} events, failed {bad} times', flush=True)
        except (Wrong, AssertionError, OSError) as e:
            wrong += 1
            sweep.report(op, e)
            if sweep.daemon.process.poll() is None:
                sweep.daemon.process.kill()
            sweep = Sweep(tools, opts, ops)
    if sweep.end():
        print('the daemon did not end well')
        wrong += 1
    nth.finish(opts, 'daemon', began, {'things': len(ops), 'events': events, 'errors': refused,
                                       'wrong': wrong})


if __name__ == '__main__':
    main()
