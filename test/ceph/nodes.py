# SPDX-License-Identifier: Apache-2.0
"""What the tests of the rados tier share: daemons over one cluster, as the user with the least
rights, and what is put there.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
import threading
import time

import peer

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']
MISS = 1
WAIT_S = 90


class Node(peer.Daemon):
    """A daemon with memory of its own over the pool that others have, too."""

    def __init__(self, c, top, *, rados='', memory='64M', waits=True, more='', **ns):
        config = f'{top}/peald.yaml'
        ns = {'name': 'kv', 'tiers': f'dram {memory} | rados pool=kv conf={c.conf} {rados}', **ns}
        with open(config, 'w', encoding='utf-8') as f:
            f.write('namespaces:\n  - ' + '\n    '.join(f'{k}: {v}' for k, v in ns.items()) + '\n' +
                    more)
        os.makedirs(f'{top}/run', exist_ok=True)
        super().__init__(PEALD, f'{top}/run', '--config', config)
        if waits:
            self.wait_log('answers')

    deadline_ms = 2000  # of a call

    def more_log(self):
        """All of it, with a line more: a client that comes and goes is two."""
        line = self.process.stderr.readline()
        assert line, f'it ended:\n{self.log}'
        self.log += line
        return self.log

    def wait_log(self, text):
        """One that never says it is ended, and then its log is the failure."""
        end = threading.Timer(WAIT_S, self.process.kill)
        end.start()
        try:
            while text not in self.log:
                self.more_log()
        finally:
            end.cancel()

    def cli(self, *args, **kw):
        return subprocess.run([PEAL, '-u', self.uri, '-t', str(self.deadline_ms), *args],
                              capture_output=True, timeout=60, check=False, **kw)

    def put(self, key, value, *args):
        return self.cli('put', key, *args, '-', input=value).returncode

    def get(self, key, *args):
        """The bytes, or None for a miss."""
        done = self.cli('get', key, *args)
        assert done.returncode in (0, MISS), done.stderr
        return done.stdout if done.returncode == 0 else None

    def rados(self):
        done = self.cli('rpc', 'stats')
        assert done.returncode == 0, done.stderr
        tiers = json.loads(done.stdout)['namespaces'][0]['tiers']
        return next(t for t in tiers if t['name'] == 'rados')

    def keys(self):
        done = self.cli('ls')
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().split()


@contextlib.contextmanager
def node(c, **how):
    """It has to end well, whatever the cluster does."""
    with tempfile.TemporaryDirectory(prefix='peal-rados.') as top:
        n = Node(c, top, **how)
        try:
            yield n
        finally:
            n.stop()
            print(n.log)
    assert n.process.returncode == 0, f'peald: status {n.process.returncode}, expected 0'


def until(what, is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, f'{what}: not within 60 s'
        time.sleep(0.05)


def value(text, nr_bytes):
    """Of bytes that only it has."""
    return hashlib.shake_128(text.encode()).digest(nr_bytes)


def name(key):
    return '0x' + key
