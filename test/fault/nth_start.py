#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start-up and end of peald with the n-th allocation or system call failing, n = 1, 2, ... until
one meets no more. Each start either works, or ends with status 1 and one line that names what
failed; then no socket is left, and the next start in that folder works. An end always ends well.

usage: nth_start.py [--step N] [--seed N] [--first N] [--all-after] [--only CONFIG] [--record] PEALD
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import nth

UP = ' info peald '
CONFIGS = {
    'plain': ['--dram', '4M', '--reactors', '2', '--http', '0'],
    'stop': ['--dram', '4M', '--reactors', '2', '--http', '0'],  # its end
    'full': None,  # by a file: everything there is
}
YAML = """\
dram: 16M
reactors: 1
poll: 200
http: {{listen: "127.0.0.1:0"}}
namespaces:
- {{name: kv, tiers: "dram 8M | ssd {dir}/ssd 16M"}}
- {{name: rw, size: 4M, immutable: false}}
blocks: ["{dir}/block,size=1M"]
transports:
- vfu: {{record: {dir}}}
"""


class Start:
    """One start of the daemon; `log` is complete once it has ended."""

    def __init__(self, tools, page, peald, folder, args):
        self.page = page
        self.log = ''
        self.is_up = threading.Event()
        command = [peald, '--dir', folder, *args]
        if page:
            command = tools.command(page, command)
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.log += line
            if UP in line:
                self.is_up.set()
        self.is_up.set()

    def wait(self):
        """Until it listens or has ended: True when it listens."""
        if not self.is_up.wait(nth.TIMEOUT):
            self.process.kill()
            raise AssertionError('hangs')
        return UP in self.log

    def stop(self):
        pid = self.page.pid if self.page else self.process.pid
        if UP in self.log:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        try:
            code = self.process.wait(nth.TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and with it, the daemon
            self.process.wait()
            raise AssertionError('does not end') from None
        finally:
            self.reader.join()
        return code


def serves(folder):
    """A client's word for it."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(nth.TIMEOUT)
        s.connect(f'{folder}/cntrl')
        s.sendall(bytes([1, 0, 1, 0, 20, 0, 0, 0]) + bytes(8) + bytes([0, 0, 1, 0]))
        assert len(s.recv(16)) == 16, 'no answer to VERSION'


def check(start, folder, is_stop):
    """What this start has to be like."""
    is_up = start.wait()
    if is_up and not is_stop:
        start.page.disarm()
        serves(folder)
    code = start.stop()
    errs = [x for x in start.log.splitlines() if ' err ' in x]
    if is_up:
        assert code == 0, f'status {code} of a daemon that was up'
        return 'up'
    assert code == 1, f'status {code}, expected 1'
    assert len(start.log.splitlines()) > 0 and len(errs) == 1, f'{len(errs)} lines of errors'
    assert 'peald does not start: ' in errs[0], 'the line does not say so'
    assert errs[0].count(': ') >= 2, 'the line does not name what failed'
    return 'refused'


def one(tools, peald, config, n, mode):
    """(what came of it, what failed) of the n-th event; no more events: None."""
    is_stop = config == 'stop'
    folder = tempfile.mkdtemp(prefix='peal-nth.')
    page = nth.Page()
    args = CONFIGS[config]
    if args is None:
        with open(f'{folder}/peald.yaml', 'w', encoding='ascii') as f:
            f.write(YAML.format(dir=folder))
        args = ['--config', f'{folder}/peald.yaml']
    if not is_stop:
        page.arm(n, mode)
    start = Start(tools, page, peald, folder, args)
    result = ''
    try:
        assert start.wait() or not is_stop
        if is_stop:
            serves(folder)
            page.arm(n, mode)
        result = check(start, folder, is_stop)
        if not page.nr_failed:
            return None
        left = [x for x in os.listdir(folder) if x.split('.')[0] in ('cntrl', 'rpc')]
        # What can't be unlinked stays.
        assert not left or page.what.startswith('unlink'), f'left behind: {left}'
        if args[0] == '--config':
            again = Start(tools, None, peald, folder, args)
            assert again.wait() and again.stop() == 0, 'the next start fails:\n' + again.log
    except (AssertionError, OSError) as e:
        print(f'{config}, event {n}: {page.what}\n  {nth.where(page, peald)}\n  {e!r}\n{start.log}',
              flush=True)
        result = 'WRONG'
        start.process.kill()
        start.process.wait()
    finally:
        what = page.what
        page.close()
        shutil.rmtree(folder)
    return result, what


def without_log(peald):
    """A log that can't be written is no reason for anything."""
    folder = tempfile.mkdtemp(prefix='peal-nth.')
    with open('/dev/full', 'wb') as full:
        process = subprocess.Popen([peald, '--dir', folder, '--dram', '4M'], stderr=full)
    end = time.time() + nth.TIMEOUT
    while not os.path.exists(f'{folder}/cntrl'):
        assert time.time() < end and process.poll() is None, 'does not start without a log'
        time.sleep(0.01)
    serves(folder)
    process.terminate()
    assert process.wait(nth.TIMEOUT) == 0
    shutil.rmtree(folder)


def main():
    parser = nth.parser(__doc__)
    parser.add_argument('peald')
    parser.add_argument('--step', type=int, default=1,
                        help='of config full, each N-th event, from one on that the seed picks')
    parser.add_argument('--first', type=int, default=0)
    opts = parser.parse_args()
    tools = nth.Tools()
    print(f'seed {opts.seed}', flush=True)
    without_log(opts.peald)
    started, wrong, events = time.time(), 0, 0
    for config in [opts.only] if opts.only else CONFIGS:
        began, count = time.time(), {}
        step = opts.step if config == 'full' else 1
        n = opts.first or 1 + opts.seed % step
        while (got := one(tools, opts.peald, config, n, nth.mode(opts))) is not None:
            count[got[0]] = count.get(got[0], 0) + 1
            assert count.get('WRONG', 0) < nth.WRONG_MAX, 'enough is wrong'
            if opts.verbose:
                print(n, *got)
            n += step
        wrong += count.get('WRONG', 0)
        events += sum(count.values())
        print(f'start {config}: events up to {n - 1}, {sum(count.values())} starts: {count}, '
              f'{time.time() - began:.0f} s', flush=True)
        assert count, 'nothing ever failed'
    opts.sample = opts.step if opts.step > 1 else 0
    nth.finish(opts, 'start', started, {'configurations': len(CONFIGS), 'events': events,
                                        'wrong': wrong})


if __name__ == '__main__':
    main()
