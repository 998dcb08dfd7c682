#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each subcommand of peal(1) with its n-th allocation or system call failing, beside a daemon that
nothing fails in. It says what is right and ends with status 0; or it ends with another status, not
one that says something about keys or files ("not there", "damaged"), and a line on stderr.

usage: nth_cli.py [--sample N] [--seed N] [--all-after] [--only NAME] [--record] PEALD PEAL
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import nth
from nth_start import Start

YAML = """\
dram: 20M
reactors: 1
poll: 200
namespaces:
- {{name: kv, tiers: "dram 8M | ssd {dir}/ssd 16M"}}
- {{name: rw, size: 4M, immutable: false}}
transports:
- vfu: {{record: {dir}, record_all: no}}
"""
HANG_S = 60
ERROR = 3


class Cmd:
    """args of peal; rough: numbers may differ; says: what its own output is like, whatever failed;
    file: a file that it writes; spawns: it starts a daemon, whose events are counted too."""

    def __init__(self, name, *args, rough=False, says=None, before=None, then=None,
                 file=None, spawns=False):
        self.name, self.args, self.rough, self.says = name, args, rough, says
        self.before, self.then, self.file, self.spawns = before, then, file, spawns


def probe_says(code, out):
    """Layers that are good, and one that isn't and is named."""
    return code == 0 or bool(re.search(r'(?i)fail|bad|wrong|no ', out))


def doctor_says(code, out):
    """Each of its twelve lines."""
    return code in (0, ERROR) and len(re.findall(r'(?im)^(good|note|bad)\b', out)) >= 12


def bench_says(code, out):
    """What it measured, and no byte was wrong."""
    return code == ERROR or (code == 0 and bool(re.search(r'(?i)get', out)))


SPAWN = 'spawn:{dir}/spawned?dram=8M&linger=1&reactors=1'
CMDS = [
    Cmd('put', 'put', 'a', '-v', 'text'),
    Cmd('put_file', 'put', 'b', '{dir}/value'),
    Cmd('get', 'get', 'key5'),
    Cmd('get_json', 'get', '-j', 'key5', '-o', '{dir}/out', file='out'),
    Cmd('get_file', 'get', 'key5', '-o', '{dir}/out', file='out'),
    Cmd('exist', 'exist', 'key5'),
    Cmd('del', 'del', 'gone', before=('put', 'gone', '-v', 'x')),
    Cmd('ls', 'ls', '-l'),
    Cmd('ls_json', 'ls', '-j'),
    Cmd('match', 'match', 'key1', 'key2', 'key3', 'nothing', rough=True),
    Cmd('hint', 'hint', 'score', 'key5', '--weight', '3'),
    Cmd('stat', 'stat', rough=True),
    Cmd('stat_json', 'stat', '-j', rough=True),
    Cmd('ns_list', 'ns', 'list', rough=True),
    Cmd('ns_resize', 'ns', 'resize', '2', '4M'),
    Cmd('class_list', 'class', 'list', rough=True),
    Cmd('class_purge', 'class', 'purge', '9', rough=True),
    Cmd('class_add', 'class', 'add', '7', 'name=seven', 'model=m', before=('class', 'list'),
        then=('class', 'remove', '7')),
    Cmd('log', 'log', '2', rough=True),
    Cmd('rpc', 'rpc', 'daemon.config'),
    Cmd('rpc_stats', 'rpc', 'stats', rough=True),
    Cmd('top', 'top', '--plain', '--count', '1', '-i', '1', rough=True),
    Cmd('doctor', 'doctor', rough=True, says=doctor_says),
    Cmd('probe', 'probe', rough=True, says=probe_says),
    Cmd('trace', 'trace', '-s', '1', rough=True),
    Cmd('fsck', 'fsck', '--data', '{dir}/kept'),
    Cmd('fsck_json', 'fsck', '-j', '{dir}/kept'),
    Cmd('bench', 'bench', '-o', 'get', '-k', '8', '-s', '4K', '-d', '2', '-S', '1', rough=True,
        says=bench_says),
    Cmd('record', 'record', '{ctrl}', then=('record', '--stop', '{ctrl}')),
    Cmd('record_stop', 'record', '--stop', '{ctrl}', before=('record', '{ctrl}'),
        then=('record', '--stop', '{ctrl}')),
    Cmd('spawn', 'put', 'a', '-v', 'text', '-u', SPAWN, spawns=True),
    Cmd('spawn_get', 'get', 'nothing', '-u', SPAWN, spawns=True,
        says=lambda code, out: code in (1, ERROR) and not out),
    Cmd('replay', 'replay', '--requests', '3', '--value-bytes', '4K', rough=True),
    Cmd('replay_count', 'replay', '--requests', '20', '--count'),
    Cmd('usage', 'put', '--nonsense', says=lambda code, out: code in (2, ERROR)),
]
# A second each, or thousands of events.
SLOW = frozenset(('top', 'trace', 'replay', 'probe', 'bench', 'spawn', 'spawn_get'))
SLOW_MAX = 60  # never more of them


class Sweep:
    def __init__(self, tools, opts, folder):
        self.tools, self.opts, self.folder = tools, opts, folder
        self.rng = random.Random(opts.seed)
        self.page = nth.Page()
        self.holder = None
        self.ctrl = ''
        self.env = dict(os.environ, PEAL_URI=f'vfu:{folder}/cntrl', PEAL_RPC=f'{folder}/rpc',
                        PEALD=opts.peald, TERM='dumb', LC_ALL='C')

    def hold(self):
        """A client that is there all the time: its controller is recorded."""
        self.holder = socket.socket(socket.AF_UNIX)
        self.holder.connect(f'{self.folder}/cntrl')
        self.holder.sendall(struct.pack('<HHIIIHH', 1, 1, 20, 0, 0, 0, 1))
        assert self.holder.recv(16)[8] & 0xf == 1
        code, out, err = self.peal(('rpc', 'client.list'))
        assert code == 0, err
        self.ctrl = str(next(c['controller'] for c in json.loads(out)
                             if c['pid'] == os.getpid()))

    def end_spawned(self):
        """Its daemon, and all that it left."""
        folder = f'{self.folder}/spawned'
        for pid in (int(p) for p in os.listdir('/proc') if p.isdigit()):
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as f:
                    words = f.read().split(b'\0')
                if folder.encode() in words and os.path.basename(words[0]) == b'peald':
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass
        shutil.rmtree(folder, ignore_errors=True)

    def peal(self, args, n=None):
        """(status, stdout, stderr); n: its n-th event fails."""
        command = [self.opts.peal, *(a.format(dir=self.folder, ctrl=self.ctrl) for a in args)]
        if n is not None:
            self.page.renew()
            self.page.arm(n, nth.mode(self.opts))
            command = self.tools.command(self.page, command)
        try:
            done = subprocess.run(command, check=False, capture_output=True, env=self.env,
                                  timeout=HANG_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return -1, b'', b'hangs'
        return done.returncode, done.stdout, done.stderr

    def output(self, cmd, out):
        if cmd.file:
            with open(f'{self.folder}/{cmd.file}', 'rb') as f:
                out += f.read()
        text = out.decode(errors='backslashreplace')
        if not cmd.rough:
            return text
        # Numbers, their units, and the columns that they make: a slow get is one of "1.0 ms".
        text = re.sub(r'[0-9][0-9.,]*(\s?([num]?s|[KMGT]i?B?|B)\b)?', '#', text)
        return ' '.join(text.split())

    def judge(self, cmd, want, got):
        """'' or what is wrong."""
        code, out, err = got
        if code < 0 or code >= 126:
            return f'status {code}'
        if code == ERROR and err.strip() and not out.strip():
            return ''
        if cmd.says and not cmd.says(code, out.decode(errors='replace')):
            return f'status {code}, and says {out!r}'
        if code == 0 and not cmd.says:
            text = self.output(cmd, out)
            if text == want:
                return ''
            return f'status 0, and says {text!r:.600}\nexpected {want!r:.600}'
        if cmd.says:
            return ''
        if code != ERROR:
            return f'status {code}, which says something else'
        return '' if err.strip() else 'no message'

    def before(self, cmd):
        if cmd.file and os.path.exists(f'{self.folder}/{cmd.file}'):
            os.unlink(f'{self.folder}/{cmd.file}')
        if cmd.before:
            assert self.peal(cmd.before)[0] == 0, cmd.before

    def then(self, cmd):
        if cmd.spawns:
            self.end_spawned()
        if cmd.then:
            nr_failed, what = self.page.nr_failed, self.page.what
            self.peal(cmd.then)
            assert (self.page.nr_failed, self.page.what) == (nr_failed, what)

    def good(self, cmd):
        self.before(cmd)
        self.peal(cmd.args)  # what is cold is slower, and says so
        self.then(cmd)
        self.before(cmd)
        code, out, err = self.peal(cmd.args, 1 << 40)
        self.then(cmd)
        assert cmd.says or code == 0, (cmd.name, code, err)
        return self.output(cmd, out), self.page.count

    def sweep(self, cmd):
        """(events, wrong)."""
        want, total = self.good(cmd)
        sample = self.opts.sample
        if cmd.name in SLOW:
            sample = max(2, sample // 4) if sample else SLOW_MAX
        which = range(1, total + 1)
        if sample:
            which = sorted(self.rng.sample(which, min(total, sample)))
        nr = bad = wrong = 0
        for n in which:
            self.before(cmd)
            got = self.peal(cmd.args, n)
            self.then(cmd)
            if not self.page.nr_failed:
                continue  # it met fewer than a moment ago
            nr += 1
            bad += got[0] != 0
            what = self.judge(cmd, want, got)
            if what:
                wrong += 1
                print(f'{cmd.name}, event {n}: WRONG: {what}\n  {self.page.what}\n'
                      f'  {nth.where(self.page, self.opts.peal)}\n'
                      f'  stderr: {got[2].decode(errors="replace")[-400:]}', flush=True)
            if wrong >= nth.WRONG_MAX:
                break
        print(f'{cmd.name}: {nr} events of {total}, {bad} gave an error', flush=True)
        return nr, wrong


def fill(sweep, folder):
    with open(f'{folder}/value', 'wb') as f:
        f.write(bytes(range(256)) * 400)
    for i in range(20):
        assert sweep.peal(('put', f'key{i}', '-v', f'value {i} ' * 3000))[0] == 0


def main():
    parser = nth.parser(__doc__)
    parser.add_argument('peald')
    parser.add_argument('peal')
    opts = parser.parse_args()
    tools = nth.Tools()
    print(f'seed {opts.seed}', flush=True)
    began, events, wrong = time.time(), 0, 0
    with tempfile.TemporaryDirectory(prefix='peal-nth.') as folder:
        with open(f'{folder}/peald.yaml', 'w', encoding='ascii') as f:
            f.write(YAML.format(dir=folder))
        args = [opts.peald, folder, ['--config', f'{folder}/peald.yaml']]
        sweep = Sweep(tools, opts, folder)
        daemon = Start(tools, None, *args)
        try:
            assert daemon.wait(), daemon.log
            fill(sweep, folder)
            assert daemon.stop() == 0
            shutil.copytree(f'{folder}/ssd', f'{folder}/kept')
            daemon = Start(tools, None, *args)
            assert daemon.wait(), daemon.log
            sweep.hold()
            for cmd in CMDS:
                if opts.only in (None, cmd.name):
                    nr, bad = sweep.sweep(cmd)
                    events += nr
                    wrong += bad
        finally:
            if daemon.process.poll() is None:
                daemon.process.terminate()
            wrong += daemon.process.wait(nth.TIMEOUT) != 0
            daemon.reader.join()
    nth.finish(opts, 'cli', began, {'commands': len(CMDS), 'events': events, 'wrong': wrong})


if __name__ == '__main__':
    sys.exit(main())
