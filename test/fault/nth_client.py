#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libpeal with its n-th allocation or system call failing: each call of peal.h, by nth_client.c,
beside a daemon that nothing fails in and that has nothing of theirs in the end.

usage: nth_client.py [--sample N] [--seed N] [--all-after] [--only CASE] [--record] PEALD NTH_CLIENT
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

import nth
from nth_start import Start

YAML = """\
dram: 48M
reactors: 1
poll: 200
namespaces:
- {{name: kv, size: 28M}}
- {{name: rw, size: 4M, immutable: false}}
transports:
- vfu: {{dir: {dir}}}
"""
HANG_S = 100


class Client:
    """One case of nth_client, from event `first` on, each `step`-th: see its head."""

    def __init__(self, tools, program, folder, mode):
        self.tools, self.program, self.mode = tools, program, mode
        self.uri = f'vfu:{folder}/cntrl'

    def run(self, page, case, first, step):
        """(status, output): 128 and more is a signal."""
        page.renew()
        args = [self.program, self.uri, case, str(first), str(step), str(self.mode)]
        try:
            done = subprocess.run(self.tools.command(page, args), check=False, text=True,
                                  capture_output=True, timeout=HANG_S)
        except subprocess.TimeoutExpired:
            return -1, 'hangs'
        return done.returncode, done.stdout + done.stderr

    def sweep(self, case, opts):
        """(events, wrong)."""
        page = nth.Page()
        # How many there are, roughly: none of them fails.
        code, out = self.run(page, case, 1 << 40, 1)
        total = page.count
        step = max(1, total // opts.sample) if opts.sample else 1
        first = 1 + opts.seed % step
        wrong = int(code != 0)
        if wrong:
            self.report(page, case, code, out)
        while code == 0:
            code, out = self.run(page, case, first, step)
            if code == 0:
                print(out.strip(), f'of {total}' if step > 1 else '', flush=True)
                break
            wrong += 1
            self.report(page, case, code, out)
            if wrong < nth.WRONG_MAX and page.fail_at < 1 << 40:
                first, code = page.fail_at + step, 0
        page.close()
        return total // step, wrong

    def report(self, page, case, code, out):
        print(f'{case}: WRONG, status {code}, event {page.fail_at}: {page.what}\n'
              f'  {nth.where(page, self.program)}\n  ' + out.strip().replace('\n', '\n  '),
              flush=True)


def left(folder):
    """What the daemon says of clients, once they are gone."""
    end = time.monotonic() + nth.TIMEOUT
    while True:
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(f'{folder}/rpc')
            c.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "client.list"}')
            with c.makefile('rb') as f:
                line = f.readline()
        if b'"result":[]' in line or time.monotonic() > end:
            return line
        time.sleep(0.01)


def main():
    parser = nth.parser(__doc__)
    parser.add_argument('peald')
    parser.add_argument('client')
    opts = parser.parse_args()
    tools = nth.Tools()
    print(f'seed {opts.seed}', flush=True)
    began, events, wrong = time.time(), 0, 0
    with tempfile.TemporaryDirectory(prefix='peal-nth.') as folder:
        with open(f'{folder}/peald.yaml', 'w', encoding='ascii') as f:
            f.write(YAML.format(dir=folder))
        daemon = Start(tools, None, opts.peald, folder, ['--config', f'{folder}/peald.yaml'])
        try:
            assert daemon.wait(), daemon.log
            names = subprocess.run([opts.client, 'list'], check=True, text=True,
                                   capture_output=True).stdout.split()
            client = Client(tools, opts.client, folder, nth.mode(opts))
            for case in names:
                if opts.only in (None, case):
                    nr, bad = client.sweep(case, opts)
                    events += nr
                    wrong += bad
            line = left(folder)
            if b'"result":[]' not in line:
                print(f'the daemon keeps clients: {line}')
                wrong += 1
        finally:
            if daemon.process.poll() is None:
                daemon.process.terminate()
            wrong += daemon.process.wait(nth.TIMEOUT) != 0
            daemon.reader.join()
    nth.finish(opts, 'client', began, {'calls': len(names), 'events': events, 'wrong': wrong})


if __name__ == '__main__':
    main()
