# SPDX-License-Identifier: Apache-2.0
"""A daemon with NVMe/TCP for the tests of it, and what is checked around each of them: whatever one
host does, another's values stay, and nothing is left behind.
"""

import contextlib
import os
import random
import re
import struct
import subprocess
import threading

import peer
import pytest
import tcp_host as t

PEALD = os.environ['PEALD']
SEED = int(os.environ.get('PEAL_SEED', '0')) or random.randrange(1 << 32)
STEADY = b'steady'


class Target:
    def __init__(self, daemon):
        self.d = daemon
        found = re.search(r'tcp: ([\d.]+):(\d+) serves (\S+)', daemon.log)
        self.addr, self.nqn = (found[1], int(found[2])), found[3]

    def host(self, **kw):
        return t.Host(self.addr, self.nqn, **kw).enable()

    def raw(self, **kw):
        return t.Queue(self.addr, **kw)

    def fd_names(self):
        return subprocess.run(['ss', '-tanp'], stdout=subprocess.PIPE, text=True,
                              check=False).stdout

    def fds(self):
        nr = 0
        for f in os.listdir(f'/proc/{self.d.pid}/fd'):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                nr += 'arena' not in os.readlink(f'/proc/{self.d.pid}/fd/{f}')
        return nr

    def settled(self):
        """How many there are when nobody is being closed any more."""
        last = self.fds()
        for _ in range(20):
            threading.Event().wait(0.005)
            if self.fds() != last:
                return self.settled()
        return last


@pytest.fixture(name='tgt', scope='module')
def make_target():
    print('seed', SEED)
    with peer.daemon(PEALD, '--dram', '256M', '--ns', 'a=192M,rw', '--ns', 'b=16M,rw', '--tcp',
                     '0', '--reactors', '2') as d:
        yield Target(d)


@pytest.fixture(name='rng')
def make_rng(request):
    return random.Random(f'{SEED} {request.node.name}')


@pytest.fixture(autouse=True)
def unharmed(tgt, rng):
    """Around every test: somebody else's value is there, and no descriptor stays."""
    h = tgt.host()
    q = h.queue()
    value = rng.randbytes(70000)
    t.kv(q, t.STORE, STEADY, value, nsid=2)
    before = tgt.settled()
    yield
    assert t.kv(q, t.RETRIEVE, STEADY, room=70000, nsid=2) == (value, 70000)
    for _ in range(3000):  # the machine may be busy
        if tgt.fds() <= before:
            break
        t.kv(q, t.EXIST, STEADY, nsid=2)
        threading.Event().wait(0.01)
    assert tgt.fds() <= before, tgt.fd_names()
    h.close()


def io_queue(tgt, **kw):
    h = tgt.host(**kw)
    return h, h.queue()


def wait_queue(h):
    """An I/O queue of the same host, made once."""
    if not h.io:
        h.queue(qid=120)
    return h.io[0]


def stream(q, data, value, key, qid):
    connect = t.sqe(0x7f, 1, 1, {10: qid << 16, 11: 31}, t.sgl_capsule(1024))
    store = t.key_set(t.sqe(t.STORE, 2, 1, {10: len(value)}, t.sgl_capsule(len(value))), key)
    get = t.key_set(t.sqe(t.RETRIEVE, 3, 1, {10: len(value)}, t.sgl_transport(len(value))), key)
    return b''.join((q.icreq(), q.pdu(t.CMD, bytes(connect), data),
                     q.pdu(t.CMD, bytes(store), value), q.pdu(t.CMD, bytes(get))))
