# SPDX-License-Identifier: Apache-2.0
"""What LMCache asks of a native_plugin client, and where such clients have gone wrong, without it:
test/engine has the same with LMCache itself."""

import logging
import os
import random
import select
import signal
import threading
import time

import pytest

from pealkv import _errors, lmcache
from procs import stop
from test_client import daemon_pid

VALUE = 300000
NAMES = [f'org/model@01000100@0@{i:064x}' for i in range(12)]


def value(seed, nr_bytes=VALUE):
    return random.Random(seed * 1000003 + nr_bytes).randbytes(nr_bytes)


def wait(client, *numbers, seconds=30):
    """The ends of those submissions, in their order; no other, and each once."""
    ended = {}
    while len(ended) < len(numbers):
        assert select.select([client.event_fd()], [], [], seconds)[0], 'nothing ends'
        for number, *end in client.drain_completions():
            assert number in numbers and number not in ended
            ended[number] = tuple(end)
    return [ended[n] for n in numbers]


def one(client, verb, *args, seconds=30):
    return wait(client, getattr(client, f'submit_batch_{verb}')(*args), seconds=seconds)[0]


def wait_for_link(client, seconds=30):
    link, until = client._link, time.monotonic() + seconds
    while not link.is_up:
        assert time.monotonic() < until, 'the link never came back'
        with link._lock:
            link._lock.wait(0.05)


@pytest.fixture
def own(tmp_path):
    """A daemon that a test may hurt."""
    return f'spawn:{tmp_path}/d?dram=64M&linger=1'


@pytest.fixture
def client(store, uri):
    made = lmcache.PealClient(uri, 'test', timeout_s=20)
    yield made
    made.close()


def test_round_trip(client):
    values = [value(i) for i in range(12)]
    # Of any alignment: LMCache says 4096 and gives 64.
    memory = memoryview(bytearray(12 * (VALUE + 13)))
    views = [memory[i * (VALUE + 13) + i :][:VALUE] for i in range(12)]
    assert one(client, 'set', NAMES, values) == (True, '', [True] * 12)
    assert one(client, 'exists', NAMES + ['other']) == (True, '', [True] * 12 + [False])
    assert one(client, 'get', NAMES, views) == (True, '', [True] * 12)
    assert [bytes(v) for v in views] == values
    assert one(client, 'delete', NAMES[:2])[2] == [True, True]
    assert one(client, 'exists', NAMES[:3])[2] == [False, False, True]
    counts = client.counts()
    assert (counts['get_ok'], counts['put_ok'], counts['failed']) == (12, 12, 0)
    capacity, used = client.capacity()
    assert capacity == 256 << 20 and used > 10 * VALUE


def test_results_of_each_key(client):
    """A load of which some keys are gone isn't "ok": older versions take that for all of them."""
    values = [value(i) for i in range(4)]
    one(client, 'set', NAMES[:4], values)
    one(client, 'delete', NAMES[1:2])
    buffers = [bytearray(VALUE) for _ in range(4)]
    ok, error, results = one(client, 'get', NAMES[:4], buffers)
    assert (ok, results) == (False, [True, False, True, True]) and '1 of 4' in error
    assert [bytes(b) for b, r in zip(buffers, results) if r] == [values[0], *values[2:]]
    assert one(client, 'get', [], []) == (True, '', [])
    assert one(client, 'exists', []) == (True, '', [])


def test_gone_is_deleted(client):
    """Evicted by Peal and then deleted by LMCache: true, or its books never get shorter."""
    one(client, 'set', NAMES[:1], [b'v'])
    assert one(client, 'delete', NAMES[:2])[2] == [True, True]
    assert one(client, 'delete', NAMES[:2])[2] == [True, True]


def test_evicted_is_a_miss(own):
    """Nothing holds a value between a look-up and its load."""
    client = lmcache.PealClient(own, 'test', timeout_s=20)
    for i in range(0, 300, 10):
        values = [value(j) for j in range(10)]
        assert one(client, 'set', [f'm@0@0@{i + j}' for j in range(10)], values)[0]
    found = one(client, 'exists', ['m@0@0@0', 'm@0@0@299'])[2]
    assert found == [False, True]
    buffers = [bytearray(VALUE), bytearray(VALUE)]
    assert one(client, 'get', ['m@0@0@0', 'm@0@0@299'], buffers)[2] == [False, True]
    assert bytes(buffers[1]) == values[9]
    client.close()


@pytest.mark.parametrize('nr_bytes', [VALUE - 1, VALUE + 1, 1, 2 * VALUE, 4096])
def test_another_size_is_a_miss(client, nr_bytes):
    """Of another layout, then: nothing is cut, and nothing filled up."""
    one(client, 'set', NAMES[:2], [value(0), value(1, nr_bytes)])
    memory = bytearray(b'\xee' * (nr_bytes + 2))
    buffers = [memoryview(memory)[1:-1], bytearray(nr_bytes)]
    ok, _, results = one(client, 'get', NAMES[:2], buffers)
    assert (ok, results) == (False, [False, True])
    assert bytes(buffers[1]) == value(1, nr_bytes)
    assert memory[0] == memory[-1] == 0xee
    buffers.clear()


def test_names(client, uri):
    """Every part of LMCache's key counts, whatever version wrote it, and nothing else does."""
    names = [
        'm@01000100@ab', 'm@01000101@ab', 'm@01000100@0@ab', 'm@01000100@1@ab',
        'm@01000100@0@ab@salt', 'm@01000100@0@ab@tlas', 'm@01000100@0@ac', 'n@01000100@0@ab',
        'm/01000100@0@ab', 'm@01000100@0@ab@', 'ü@01000100@0@ab', 'm' * 300 + '@0@0@ab',
    ]
    values = [value(i) for i in range(len(names))]
    assert one(client, 'set', names, values)[0]
    buffers = [bytearray(VALUE) for _ in names]
    assert one(client, 'get', names, buffers)[0]
    assert [bytes(b) for b in buffers] == values
    for other in (('test2', ''), ('test', 'tenant')):
        stranger = lmcache.PealClient(uri, other[0], salt=other[1], timeout_s=20)
        assert one(stranger, 'exists', names)[2] == [False] * len(names)
        assert one(stranger, 'get', names, buffers)[2] == [False] * len(names)
        stranger.close()
    same = lmcache.PealClient(uri, 'test', timeout_s=20)
    assert one(same, 'exists', names)[2] == [True] * len(names)
    same.close()
    ok, error, results = one(client, 'exists', ['x' * 5000, names[0]])
    assert not ok and '4096' in error and results == [False, False]


def test_one_eventfd(client):
    """Readable exactly while something is to be drained; the same one for all verbs."""
    fd = client.event_fd()
    assert fd == client.event_fd() and not os.get_blocking(fd)
    assert not select.select([fd], [], [], 0)[0]
    assert client.drain_completions() == []
    numbers = [client.submit_batch_set([n], [b'v']) for n in NAMES]
    numbers += [client.submit_batch_exists([n]) for n in NAMES]
    assert len(set(numbers)) == 24
    wait(client, *numbers)
    assert not select.select([fd], [], [], 0)[0]
    assert client.drain_completions() == []


def test_many_threads(client):
    """Two of LMCache's controllers submit, a third thread drains."""
    numbers, lock = [], threading.Lock()

    def submit(verb, args):
        for _ in range(50):
            n = getattr(client, f'submit_batch_{verb}')(*args)
            with lock:
                numbers.append(n)

    one(client, 'set', NAMES[:1], [value(0)])
    threads = [threading.Thread(target=submit, args=a) for a in (
        ('exists', (NAMES[:3],)), ('set', (NAMES[3:5], [value(1), value(2)])),
        ('get', (NAMES[:1], [bytearray(VALUE)])))]
    for t in threads:
        t.start()
    ended = []
    while len(ended) < 150:
        assert select.select([client.event_fd()], [], [], 30)[0]
        ended += client.drain_completions()
    for t in threads:
        t.join()
    assert sorted(n for n, *_ in ended) == sorted(numbers)
    assert all(ok for _, ok, *_ in ended)


def test_stopped(own):
    """Submitting never waits; all ends by its time; and then nobody writes into the buffers."""
    client = lmcache.PealClient(own, 'test', timeout_s=0.5, threads=2)
    names = NAMES[:4]
    assert one(client, 'set', names, [value(i) for i in range(4)])[0]
    pid = daemon_pid(own)
    stop(pid)
    buffers = [bytearray(VALUE) for _ in range(4)]
    small = bytearray(64)
    numbers = [client.submit_batch_get(names, buffers), client.submit_batch_set(['w'], [small]),
               client.submit_batch_exists(names), client.submit_batch_delete(names[:1])]
    ends = wait(client, *numbers)
    assert [ok for ok, *_ in ends] == [False] * 4 and all(error for _, error, _ in ends)
    assert not any(any(results) for *_, results in ends)
    for b in [*buffers, small]:
        b[:] = b'\xee' * len(b)
    # The link is down: what comes now ends at once.
    assert one(client, 'exists', names)[:2] == (False, 'the daemon is away')
    os.kill(pid, signal.SIGCONT)
    wait_for_link(client)
    fresh = [bytearray(VALUE) for _ in range(3)]
    assert one(client, 'get', names[1:], fresh)[0]
    assert {bytes(b) for b in [*buffers, small]} == {b'\xee' * VALUE, b'\xee' * 64}
    client.close()


def test_killed(own, caplog):
    """Misses until there is a daemon again, and one line each when it goes and comes."""
    caplog.set_level(logging.INFO)
    client = lmcache.PealClient(own, 'test', timeout_s=10)
    one(client, 'set', NAMES[:1], [b'v'])
    os.kill(daemon_pid(own), signal.SIGKILL)
    ends = [one(client, 'get', NAMES[:1], [bytearray(1)]) for _ in range(20)]
    assert not any(ok or any(results) for ok, _, results in ends)
    wait_for_link(client)
    assert one(client, 'set', NAMES[:1], [b'v'])[0]
    assert one(client, 'exists', NAMES[:1])[2] == [True]
    client.close()
    said = [r.message for r in caplog.records]
    assert sum('until it is back' in s for s in said) == 1
    assert sum('it is there after' in s for s in said) == 1


def test_no_daemon(tmp_path):
    """LMCache starts all the same, and is told misses."""
    client = lmcache.PealClient(f'vfu:{tmp_path}/none', 'test', timeout_s=0.5)
    assert one(client, 'exists', NAMES) == (False, 'the daemon is away', [False] * 12)
    client.close()


def test_full(store, uri, monkeypatch):
    """A bound on what waits; who comes beyond it ends at once."""
    monkeypatch.setattr(lmcache, 'MAX_WAITING', 0)
    client = lmcache.PealClient(uri, 'test', timeout_s=20)
    assert one(client, 'set', NAMES[:1], [b'v']) == (False, 'too much is waiting', [False])
    client.close()


def test_reads_pass_writes(own):
    """Writes never have the last thread: a look-up behind many stores doesn't wait for them."""
    client = lmcache.PealClient(own, 'test', timeout_s=60, threads=2)
    begun, go = threading.Event(), threading.Event()
    run = client._mover._run

    def slow(transfer, low, high):
        if transfer.verb == 'put':
            begun.set()
            assert go.wait(30)
        run(transfer, low, high)

    client._mover._run = slow
    sets = [client.submit_batch_set([n], [b'v']) for n in NAMES]
    assert begun.wait(30)
    assert one(client, 'exists', NAMES[:1]) == (True, '', [False])
    go.set()
    assert all(ok for ok, *_ in wait(client, *sets))
    client.close()


def test_a_batch_for_each_thread(own):
    """More threads are more calls at once: a look-up doesn't wait for what the writers hold."""
    client = lmcache.PealClient(own, 'test', timeout_s=60, threads=7)
    begun, go = threading.Semaphore(0), threading.Event()
    store = client._link.client()
    give = store._give_queue

    def slow(q):
        if threading.current_thread() is not mine[0]:
            begun.release()
            assert go.wait(30)
        give(q)

    mine = [None]
    run = client._mover._run

    def tell(transfer, low, high):
        if transfer.verb == 'exist':
            mine[0] = threading.current_thread()
        run(transfer, low, high)

    store._give_queue, client._mover._run = slow, tell
    sets = [client.submit_batch_set([n], [b'v']) for n in NAMES]
    try:
        for _ in range(6):
            assert begun.acquire(timeout=20)
        assert one(client, 'exists', NAMES[-1:], seconds=20) == (True, '', [False])
    finally:
        go.set()
    assert all(ok for ok, *_ in wait(client, *sets))
    client.close()


def test_close(uri, store):
    """Twice is fine; buffers are free; nothing is made up for what was dropped."""
    client = lmcache.PealClient(uri, 'test', timeout_s=20)
    memory = bytearray(100 * 4096)
    views = [memoryview(memory)[i * 4096 :][:4096] for i in range(100)]
    fd = client.event_fd()
    for i, view in enumerate(views):
        client.submit_batch_set([f'c{i}'], [view])
    client.close()
    client.close()
    assert client.drain_completions() == []
    with pytest.raises(_errors.BadArgument):
        client.submit_batch_exists(NAMES)
    with pytest.raises(OSError):
        os.fstat(fd)
    del view
    views.clear()
    memory.clear()  # which a view that is left would forbid


def test_fork(client):
    """A child is told; its parent's calls go on."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            client.submit_batch_exists(NAMES)
        except _errors.Forked:
            client.close()
            status = 0
        finally:
            os._exit(status)  # whatever was raised: the tests behind this one are the parent's
    assert os.waitpid(pid, 0)[1] == 0
    assert one(client, 'exists', NAMES)[0]


@pytest.mark.parametrize('wrong, why', [
    ({'uri': ''}, 'uri'), ({'revision': ''}, 'revision'), ({'timeout_s': 0}, 'timeout_s'),
    ({'threads': 0}, 'threads'), ({'revision': None}, 'revision'), ({'threads': '4'}, 'threads'),
    ({'threads': 2.5}, 'threads'), ({'timeout_s': '2'}, 'timeout_s'), ({'salt': 5}, 'salt'),
    ({'salt': None}, 'salt'), ({'uri': 'spawn:/x?drum=64M'}, 'drum'), ({'uri': '/x'}, 'scheme')])
def test_refused(tmp_path, wrong, why):
    """By name, and nothing stays open."""
    before = os.listdir('/proc/self/fd')
    with pytest.raises(ValueError, match=why):
        lmcache.PealClient(**{'uri': f'spawn:{tmp_path}/x?dram=64M', 'revision': 'r', **wrong})
    assert not os.path.exists(f'{tmp_path}/x')
    assert len(os.listdir('/proc/self/fd')) == len(before)


def test_no_threads(tmp_path, monkeypatch):
    """A system that has no more of them: nothing stays open either."""
    before, start = len(os.listdir('/proc/self/fd')), threading.Thread.start

    def limited(thread):
        if thread.name == 'pealkv-2':
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, 'start', limited)
    with pytest.raises(RuntimeError):
        lmcache.PealClient(f'vfu:{tmp_path}/none', 'r')
    assert len(os.listdir('/proc/self/fd')) == before
    assert not [t for t in threading.enumerate() if t.name.startswith('pealkv')]


def test_wrong_call(client):
    with pytest.raises(ValueError, match='expected as many'):
        client.submit_batch_get(NAMES[:2], [bytearray(1)])
    ok, error, results = one(client, 'get', NAMES[:1], [b'read only'])
    assert not ok and error and results == [False]
    assert one(client, 'exists', NAMES)[0]  # the threads live
