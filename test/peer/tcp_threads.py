# SPDX-License-Identifier: Apache-2.0
"""Four hosts of NVMe/TCP at once on a daemon with three reactors, each with queues on all of them:
values, aborts, queues that go in the middle of a transfer, controllers that are disabled, hosts
that vanish or say what makes no sense, and somebody who asks for metrics all the while. Each has
keys of its own, which it must read back as last written, and keys that all write, whose bytes
follow from the key. The build with ThreadSanitizer runs it: a finding ends the daemon.
"""

import contextlib
import os
import random
import re
import threading
import urllib.request

import peer
import tcp_host as t

PEALD = os.environ['PEALD']
SEED = int(os.environ.get('PEAL_SEED', '0')) or random.randrange(1 << 32)
SHAPES = [{}, {'maxr2t': 3}, {'hdgst': True}, {'hdgst': True, 'ddgst': True}]
ROUNDS = 8
BATCH = 8


def shared_value(i):
    return random.Random(f'shared {i}').randbytes(1 + i * 4567)


SHARED = [shared_value(i) for i in range(10)]


class Visitor:
    """One host: its own keys, with what was written there last, None where that isn't known."""

    def __init__(self, daemon, ident):
        found = re.search(r'tcp: ([\d.]+):(\d+) serves (\S+)', daemon.log)
        self.addr, self.nqn, self.ident = (found[1], int(found[2])), found[3], ident
        self.rng = random.Random(f'{SEED} {ident}')
        self.known = {}
        self.size_max = 20000 if ident == 3 else 300000  # its digests are slow
        self.failed = None

    def connect(self):
        h = t.Host(self.addr, self.nqn, f'nqn.2024-01.org.example:h{self.ident}',
                   **SHAPES[self.ident]).enable()
        for _ in range(3):
            h.queue()
        return h

    def key(self):
        return b'own%d.%d' % (self.ident, self.rng.randrange(20))

    def size(self):
        return self.rng.choice([1, 100, 4096, 8192, self.rng.randrange(1, self.size_max)])

    def store(self, q):
        """CID, and what to note when it is answered."""
        if self.rng.random() < 0.3:
            i = self.rng.randrange(len(SHARED))
            key, value = b'shared%d' % i, SHARED[i]
        else:
            key, value = self.key(), self.rng.randbytes(self.size())
            self.known[key] = None
        b = t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), key)
        inside = len(value) <= t.CAPSULE_MAX and self.rng.random() < 0.7
        return q.submit(b, value, inside), key, value

    def stores(self, q):
        batch = [self.store(q) for _ in range(BATCH)]
        last = {key: value for _, key, value in batch}
        twice = {key for key in last if sum(key == k for _, k, _ in batch) > 1}
        for cid, key, value in batch:
            q.wait(cid)
            if key.startswith(b'own') and key not in twice:  # else their order is anybody's guess
                self.known[key] = value

    def read(self, q, key, room):
        try:
            return t.kv(q, t.RETRIEVE, key, room=room)[0]
        except t.Status as e:
            assert e.status in (0x87, 0x22), e  # evicted, or replaced while it was read
            return None

    def check(self, q):
        for key, value in self.rng.sample(sorted(self.known.items()), min(6, len(self.known))):
            got = self.read(q, key, 300000)
            assert got is None or value is None or got == value, key
        i = self.rng.randrange(len(SHARED))
        assert self.read(q, b'shared%d' % i, 300000) in (None, SHARED[i])

    def retrieves(self, q):
        batch = []
        for i in range(BATCH):
            b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: 300000},
                                t.sgl_transport(300000)), b'shared%d' % (i % len(SHARED)))
            batch.append((i, q.submit(b)))
        for i, cid in batch:
            with contextlib.suppress(t.Status):
                assert q.wait(cid)[1] == SHARED[i % len(SHARED)]

    def abort(self, h, q):
        cid, key, _ = self.store(q)
        a = h.admin
        a.run(t.sqe(0x08, a.take_cid(), 0, {10: cid << 16 | h.io.index(q) + 1}))
        with contextlib.suppress(t.Status):
            q.wait(cid)
        self.known.pop(key, None)

    def admin(self, h):
        h.identify(1)
        h.identify(2)
        h.log(2, 512)
        a = h.admin
        a.run(t.sqe(0x18, a.take_cid()))
        a.submit(t.sqe(0x0c, a.take_cid()))

    def begin(self, q):
        """A Store that nobody waits for: it may still come when other queues are at work."""
        value = self.rng.randbytes(self.size())
        q.submit(t.key_set(t.sqe(t.STORE, q.take_cid(), 1, {10: len(value)}), b'lost'), value)

    def leave(self, q):
        """In the middle of what was begun."""
        for _ in range(BATCH):
            self.begin(q)
            b = t.key_set(t.sqe(t.RETRIEVE, q.take_cid(), 1, {10: 300000},
                                t.sgl_transport(300000)), b'shared9')
            q.submit(b)
        if self.rng.random() < 0.5:
            q.send(self.rng.randbytes(200))
        q.close()

    def disable(self, h):
        self.begin(h.io[0])
        h.set(0x14, 4 << 20 | 6 << 16 | 6 << 4)

    def round(self):
        h = self.connect()
        for q in h.io * 2:
            self.stores(q)
            self.check(self.rng.choice(h.io))
            self.retrieves(q)
        self.abort(h, h.io[1])
        self.admin(h)
        t.kv(h.io[2], t.LIST, b'', room=4096)
        with contextlib.suppress(t.Status):  # it isn't there, as a rule
            t.kv(h.io[0], t.DELETE, b'shared%d' % self.rng.randrange(len(SHARED)))
        self.leave(h.io[self.rng.randrange(1, 3)])
        if self.rng.random() < 0.5:
            self.disable(h)
        h.close()

    def run(self):
        try:
            for _ in range(ROUNDS):
                self.round()
        except BaseException as e:  # pylint: disable=broad-exception-caught # told by the test
            self.failed = e
            raise


def metrics(daemon, until):
    port = re.search(r'on 127\.0\.0\.1 port (\d+)', daemon.log).group(1)
    while not until.wait(0.05):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=60) as answer:
            assert b'peal_' in answer.read()


def test_four_hosts():
    print('seed', SEED)
    with peer.daemon(PEALD, '--dram', '8M', '--ns', 'a=8M,rw', '--tcp', '0', '--http', '0',
                     '--reactors', '3') as d:
        visitors = [Visitor(d, i) for i in range(4)]
        over = threading.Event()
        asks = threading.Thread(target=metrics, args=(d, over))
        threads = [threading.Thread(target=v.run) for v in visitors]
        for thread in [asks, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        over.set()
        asks.join()
        assert [v.failed for v in visitors] == [None] * 4
