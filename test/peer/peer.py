# SPDX-License-Identifier: Apache-2.0
"""What the peer tests share: a peald of their own in a folder of their own."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request


class Daemon:
    """Listens when the constructor is back. `log` is all of its log once it has stopped."""

    def __init__(self, peald, folder, *args):
        self.folder = folder
        self.uri = f'vfu:{folder}/cntrl'
        # Lines go nowhere but into the pipe: a test may not write more than it holds, 64 KiB.
        self.process = subprocess.Popen([peald, '--dir', folder, *args], stderr=subprocess.PIPE,
                                        text=True)
        self.pid = self.process.pid
        self.log = ''
        for line in self.process.stderr:
            self.log += line
            if 'listening on' in line:
                return
        sys.exit('peald did not start:\n' + self.log)

    def stop(self):
        self.process.terminate()
        self.log += self.process.communicate(timeout=60)[1]


class Node(Daemon):
    """One that is asked with peal(1), PEAL_CLI, and over HTTP; its lower tier is looked at."""

    def __init__(self, peald, folder, *args):
        super().__init__(peald, folder, '--http', '0', *args)
        self.port = int(re.search(r'on 127\.0\.0\.1 port (\d+)', self.log).group(1))

    def get(self, path):
        with urllib.request.urlopen(f'http://127.0.0.1:{self.port}{path}', timeout=60) as answer:
            return answer.read().decode()

    def cli(self, *args, **kw):
        return subprocess.run([os.environ['PEAL_CLI'], '-u', self.uri, *args],
                              capture_output=True, timeout=60, check=False, **kw)

    def rpc(self, *args):
        done = self.cli('rpc', *args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def tier(self):
        return self.rpc('stats')['namespaces'][0]['tiers'][1]


@contextlib.contextmanager
def daemon(peald, *args):
    """A daemon for a `with`; it has to end well, whatever the test did."""
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        d = Daemon(peald, folder, *args)
        try:
            yield d
        finally:
            d.stop()
            print(d.log)
    assert d.process.returncode == 0, f'peald: status {d.process.returncode}, expected 0'
