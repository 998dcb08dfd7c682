# SPDX-License-Identifier: Apache-2.0
"""Batches with tags against a real peald, many values under way at once: bytes, other tags, a
daemon that is stopped and one that is killed in the middle. t_batch_wave.c has the same with a
daemon that stops at an exact command."""

import functools
import os
import random
import signal
import threading

import pytest

import pealkv
from procs import stop
from test_client import daemon_pid

SEED = int(os.environ.get('PEAL_SEED', random.SystemRandom().randrange(1 << 32)))
SIZES = [1, 4096, 65535, 65536, 65537, 200_000, 262_144, 1 << 20, (1 << 20) + 1, 5_000_000]
MARK = 0xee


@functools.lru_cache(maxsize=400)
def value(i, version, nr):
    return random.Random(i * 1_000_003 + version * 7 + nr).randbytes(nr)


def tag(i):
    return (b'tag %d' % i).ljust(32, b'\0')


def key(i):
    return b'key%013d' % i


@pytest.fixture
def own(tmp_path):
    """A daemon that a test may hurt."""
    return f'spawn:{tmp_path}/d?dram=1G&linger=1'


def put(store, numbers, version, size, timeout=60):
    values = [value(i, version, size(i)) for i in numbers]
    said = store.put_many([key(i) for i in numbers], values, tags=[tag(i) for i in numbers],
                          timeout=timeout)
    return [s is None for s in said]


def get(store, numbers, size, tags=None, timeout=60):
    """For each its result and its buffer, which was full of MARK before."""
    buffers = [bytearray([MARK]) * size(i) for i in numbers]
    said = store.get_many([key(i) for i in numbers], buffers, timeout=timeout,
                          want_tags=tags or [tag(i) for i in numbers])
    return list(zip(said, buffers, strict=True))


def test_sizes(own):
    print('PEAL_SEED', SEED)
    pick = random.Random(SEED)
    with pealkv.open(own) as store:
        for version in range(8):
            numbers = pick.sample(range(200), pick.choice([1, 2, 30, 60]))
            chosen = {i: pick.choice(SIZES[:9] if len(numbers) > 30 else SIZES) for i in numbers}
            assert all(put(store, numbers, version, chosen.get))
            pick.shuffle(numbers)
            for i, (said, buffer) in zip(numbers, get(store, numbers, chosen.get), strict=True):
                assert said == chosen[i] and buffer == value(i, version, chosen[i])
        assert store.stats().bad_tags == store.stats().bad_seals == 0
        assert store.stats().quarantined_bytes == 0


@pytest.mark.parametrize('nr_bytes', [4096, 300_000])
def test_other_tags(store, nr_bytes):
    numbers = range(20)
    assert all(put(store, numbers, 0, lambda _: nr_bytes))
    tags = [tag(i if i % 3 else i + 1) for i in numbers]
    before = store.stats().bad_tags
    for i, (said, buffer) in zip(numbers, get(store, numbers, lambda _: nr_bytes, tags),
                                 strict=True):
        if i % 3:
            assert said == nr_bytes and buffer == value(i, 0, nr_bytes)
        else:
            assert said is None and buffer == bytes([MARK]) * nr_bytes
    assert store.stats().bad_tags - before == 7


def test_replaced(own):
    """Values that other threads replace all the time: one version or another, whole."""
    numbers, sizes, stop = range(12), [70_000, 300_000], threading.Event()

    def replace():
        version = 0
        while not stop.is_set():
            version += 1
            put(store, numbers, version, lambda _: sizes[version % 2])

    with pealkv.open(own, batches=8) as store:
        put(store, numbers, 0, lambda _: sizes[0])
        threads = [threading.Thread(target=replace) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            seen = 0
            for _ in range(60):
                for i, (said, buffer) in zip(numbers, get(store, numbers, lambda _: sizes[1])):
                    if said is None:
                        continue
                    assert said in sizes
                    seen += 1
                    check_version(i, bytes(buffer[:said]))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert seen


def check_version(i, data):
    for version in range(5000):
        made = random.Random(i * 1_000_003 + version * 7 + len(data)).randbytes(16)
        if made == data[:16]:
            assert data == value(i, version, len(data))
            return
    raise AssertionError('bytes of no version')


def test_stopped(own):
    """One deadline for all, and nothing comes later."""
    numbers = range(24)
    with pealkv.open(own) as store:
        assert all(put(store, numbers, 0, lambda _: 300_000))
        get(store, numbers, lambda _: 300_000)
        pid = daemon_pid(own)
        stop(pid)
        late = get(store, numbers, lambda _: 300_000, timeout=0.3)
        assert all(isinstance(said, pealkv.Timeout) for said, _ in late)
        assert not any(put(store, range(50, 60), 1, lambda _: 300_000, timeout=0.3))
        os.kill(pid, signal.SIGCONT)
        for i, (said, buffer) in zip(numbers, get(store, numbers, lambda _: 300_000)):
            assert said == 300_000 and buffer == value(i, 0, 300_000)
        assert all(buffer == bytes([MARK]) * 300_000 for _, buffer in late)


def test_killed(own):
    """kill -9 while waves are under way, again and again: each value whole or not at all."""
    print('PEAL_SEED', SEED)
    pick, numbers = random.Random(SEED), range(30)
    sizes = [4096, 100_000, 262_144, 500_000]

    def size(i):
        return sizes[i % 4]

    with pealkv.open(own, timeout=20) as store:
        assert all(put(store, numbers, 0, size))
    for turn in range(6):
        with pealkv.open(own, timeout=20) as store:
            put(store, numbers, turn, size)
            killer = threading.Timer(pick.random() * 0.03,
                                     os.kill, (daemon_pid(own), signal.SIGKILL))
            killer.start()
            rounds = 3
            while rounds:
                rounds -= not killer.is_alive()
                for i, (said, buffer) in zip(numbers, get(store, numbers, size)):
                    if said == size(i):
                        assert buffer == value(i, turn, size(i))
                    else:
                        assert said is None or isinstance(said, pealkv.PealError)
                put(store, numbers, turn, size)
