# SPDX-License-Identifier: Apache-2.0
"""pealkv against a real peald: every call, every kind of memory, threads, futures, asyncio, an
eventfd, forks, daemons that stop, go and come back."""

import array
import asyncio
import concurrent.futures
import mmap
import os
import random
import select
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import pealkv
from pealkv import keys
from procs import stop

TAG, OTHER = b'a'.ljust(32), b'b'.ljust(32)
SIZES = [1, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 5_000_000]


def value_of(seed, nr):
    return random.Random(seed).randbytes(nr)


def daemon_pid(uri):
    """By its folder, among our own processes' grandchildren."""
    folder = uri.removeprefix('spawn:').split('?')[0].encode()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                if folder in f.read().split(b'\0')[1:]:
                    return int(pid)
        except OSError:
            continue
    raise AssertionError(f'no daemon of {folder}')


@pytest.fixture
def own(tmp_path):
    """A daemon that a test may hurt."""
    return f'spawn:{tmp_path}/d?dram=64M&linger=1'


def test_hints(store):
    store.put_many([b'k', b'l'], [b'v', b'w'])
    hints = [pealkv.Hint(b'k'), pealkv.Hint(b'l', pealkv.Say.SCORE, weight=255),
             pealkv.Hint(b'absent', pealkv.Say.PREFETCH, ms=100, weight=7)]
    assert 0 <= store.hint(hints) <= 3
    assert store.hint([]) == 0
    assert store.get(b'k') == b'v' and store.get(b'l') == b'w'
    with pytest.raises(pealkv.BadArgument):
        store.hint([pealkv.Hint(b'k', weight=1 << 16)])
    with pytest.raises(pealkv.BadArgument):
        store.hint([pealkv.Hint(b'')])


# -- one value

@pytest.mark.parametrize('nr', SIZES)
def test_sizes(store, nr):
    value = value_of(nr, nr)
    store.put(b'k', value)
    assert store.get(b'k') == value
    buffer = bytearray(nr)
    assert store.get_into(b'k', buffer) == nr
    assert buffer == value
    assert store.meta(b'k') == (nr, pealkv.Meta())


def test_verbs(store):
    assert store.get(b'k') is None
    assert store.get_into(b'k', bytearray(1)) is None
    assert store.meta(b'k') is None
    assert not store.exist(b'k')
    assert not store.delete(b'k')
    store.put(b'k', b'v', if_absent=True)
    assert store.exist(b'k', timeout=5)
    with pytest.raises(pealkv.Exists) as e:
        store.put(b'k', b'w', if_absent=True)
    assert e.value.key == b'k'
    assert e.value.reason in str(e.value) and e.value.advice in str(e.value)
    store.put(b'k', b'w', if_present=True)
    with pytest.raises(pealkv.Absent):
        store.put(b'l', b'w', if_present=True)
    assert store.get(b'k') == b'w'
    assert store.delete(b'k')
    store.flush()
    assert store.get(b'k') is None


def test_parts(store):
    value = value_of(1, 10000)
    store.put(b'k', value)
    with pytest.raises(pealkv.TooSmall) as e:
        store.get_into(b'k', bytearray(9999))
    assert e.value.value_bytes == 10000
    buffer = bytearray(100)
    assert store.get_into(b'k', buffer, part=True, offset=4096) == 100
    assert buffer == value[4096:4196]
    for offset in (1, -1, 12288, 1 << 40):
        with pytest.raises(pealkv.BadArgument):
            store.get_into(b'k', buffer, part=True, offset=offset)


def test_tags(store):
    store.put(b'k', b'v', tag=TAG, meta=pealkv.Meta(parent=b'p', group=b'g', cost_us=7, seq=3))
    assert store.get(b'k', want_tag=TAG) == b'v'
    assert store.get(b'k', want_tag=OTHER) is None
    assert store.get_into(b'k', bytearray(9), want_tag=OTHER) is None
    assert store.meta(b'k') == (1, pealkv.Meta(TAG, b'p', b'g', 0, 7, 3))
    large = value_of(2, 300000)
    store.put(b'l', large, tag=TAG)
    assert store.get(b'l', want_tag=TAG) == large
    assert store.get(b'l', want_tag=OTHER) is None
    assert store.stats().bad_tags == 3
    for tag in (b'short', bytes(33)):
        with pytest.raises(pealkv.BadArgument):
            store.get(b'k', want_tag=tag)
    with pytest.raises(pealkv.BadArgument):
        store.put(b'k', b'v', meta=pealkv.Meta(cls=1 << 16))


def test_keys(store):
    store.put('0x00ff', b'v')
    assert store.get(b'\0\xff') == store.get(bytearray(b'\0\xff')) == b'v'
    store.put('text', b'w')
    assert store.get(memoryview(b'text')) == b'w'
    assert sorted(store.list()) == [b'\0\xff', b'text']
    first, second = store.list()
    assert list(store.list(first)) == [second]
    for key in (b'', bytes(17), '', '0x0', 'longer than a key', 5, None):
        with pytest.raises(pealkv.BadArgument):
            store.get(key)


def test_list(store):
    names = {i.to_bytes(2, 'big') for i in range(1000)}
    store.put_many(sorted(names), [b'v'] * 1000)
    assert set(store.list()) == names


def test_match(store):
    chain = [i.to_bytes(16, 'big') for i in range(300)]
    assert store.match(chain) == pealkv.Match(0, 0)
    store.put_many(chain[:200], [value_of(1, 100000)] * 200)
    assert store.match(chain) == pealkv.Match(200, 200)
    assert store.match([]) == pealkv.Match(0, 0)
    store.delete(chain[7])
    assert store.match(chain).present == 7
    e = store.estimate(chain, 100000)
    assert (e.present, e.in_memory, e.is_measured) == (7, 7, False)
    store.get(chain[0])
    e = store.estimate(chain, 100000)
    assert e.is_measured and e.memory_bytes_per_s > 0
    assert e.load_seconds == e.memory_seconds > 0
    with pytest.raises(pealkv.BadArgument):
        store.estimate(chain, 0)


def test_about(store):
    store.put(b'k', b'v')
    store.get(b'k')
    store.get(b'l')
    info = store.info()
    assert info.nsid == 1 and info.value_max == 128 << 20 and info.has_lease
    assert 0 < info.used_bytes <= info.capacity_bytes
    stats = store.stats()
    assert (stats.hits, stats.misses, stats.bytes_out, stats.bad_seals) == (1, 1, 1, 0)
    with pytest.raises(pealkv.TooLarge):
        store.put(b'k', mmap.mmap(-1, (128 << 20) + 1))


# -- buffers

class Tensor:
    """As torch has it."""

    def __init__(self, numbers, device='cpu', contiguous=True):
        self.numbers, self.contiguous = numbers, contiguous
        self.device = type('device', (), {'type': device})

    def data_ptr(self):
        return self.numbers.ctypes.data

    def is_contiguous(self):
        return self.contiguous

    def element_size(self):
        return self.numbers.itemsize

    def numel(self):
        return self.numbers.size


def test_buffers(store):
    numbers = numpy.arange(6000, dtype=numpy.float32).reshape(60, 100)
    raw = numbers.tobytes()
    area = mmap.mmap(-1, len(raw))
    area[:] = raw
    for value in (raw, bytearray(raw), memoryview(raw), memoryview(numbers), numbers, area,
                  array.array('b', raw), numbers[:], Tensor(numbers)):
        store.put(b'k', value)
        assert store.get(b'k') == raw
        store.delete(b'k')
    store.put(b'k', raw)
    back = numpy.zeros_like(numbers)
    for into in (back, Tensor(back), memoryview(back), bytearray(len(raw)), area):
        back[:] = 0
        assert store.get_into(b'k', into) == len(raw)
    assert store.get_into(b'k', Tensor(back)) == len(raw)
    assert (back == numbers).all()
    rows = numpy.zeros((3, len(raw)), dtype=numpy.uint8)
    assert store.get_into(b'k', rows[1]) == len(raw)
    assert rows[1].tobytes() == raw and not rows[0].any() and not rows[2].any()


def test_refused_buffers(store):
    numbers = numpy.zeros((60, 100), dtype=numpy.int16)
    for value in (numbers[:, 5:], numbers.T[:50], 'text', 5, None, Tensor(numbers, 'cpu', False)):
        with pytest.raises(pealkv.BadArgument):
            store.put(b'k', value)
    with pytest.raises(pealkv.Unsupported):
        store.put(b'k', Tensor(numbers, 'cuda'))
    with pytest.raises(pealkv.BadArgument):
        store.put(b'k', b'')
    store.put(b'k', b'v')
    read_only = numpy.zeros(100, dtype=numpy.uint8)
    read_only.flags.writeable = False
    for into in (b'read-only', memoryview(b'read-only'), read_only):
        with pytest.raises(pealkv.BadArgument):
            store.get_into(b'k', into)


def test_torch(store):
    """With torch where it is; what it looks like is tested above."""
    torch = pytest.importorskip('torch')
    tensor = torch.arange(1000, dtype=torch.bfloat16)
    store.put(b'k', tensor)
    back = torch.zeros_like(tensor)
    assert store.get_into(b'k', back) == 2000
    assert torch.equal(tensor, back)


# -- batches

def test_batch(store):
    names = [i.to_bytes(16, 'big') for i in range(300)]
    values = [value_of(i, random.Random(i).choice(SIZES[:5])) for i in range(300)]
    assert store.put_many(names, values) == [None] * 300
    assert store.exist_many(names + [b'absent']) == [True] * 300 + [False]
    buffers = [bytearray(len(v)) for v in values]
    assert store.get_many(names, buffers) == [len(v) for v in values]
    assert buffers == values
    assert store.get_many(b''.join(names), buffers) == [len(v) for v in values]
    buffers[3] = bytearray(len(values[3]) + 5)
    buffers[5] = bytearray(0)
    names[7] = b'absent'
    got = store.get_many(names, buffers)
    assert got[3] == len(values[3]) and got[7] is None
    assert isinstance(got[5], pealkv.TooSmall) and got[5].key == names[5]
    assert store.get_many(names[:1], [bytearray(1)], part=True) == [len(values[0])]
    assert store.delete_many(names) == [i != 7 for i in range(300)]
    assert store.get_many([], []) == store.put_many([], []) == store.exist_many(b'') == []


def test_batch_tags(store):
    names = [b'a', b'bb', b'ccc']
    metas = [pealkv.Meta(tag=TAG, seq=1), None, pealkv.Meta(tag=OTHER)]
    assert store.put_many(names, [b'1', b'2', b'3'], metas=metas) == [None] * 3
    assert store.meta(b'a') == (1, metas[0])
    got = store.get_many(names, [bytearray(1) for _ in names], want_tags=[TAG, bytes(32), TAG])
    assert got == [1, 1, None]
    assert isinstance(store.put_many(names, [b'x'] * 3, if_absent=True)[1], pealkv.Exists)


def test_batch_refused(store):
    for call in (lambda: store.get_many([b'k'], []), lambda: store.get_many(bytes(15), []),
                 lambda: store.get_many([b'k', b''], [bytearray(1)] * 2),
                 lambda: store.put_many([b'k'], [b'v'], metas=[]),
                 lambda: store.get_many([b'k'], [bytearray(1)], want_tags=[b'']),
                 lambda: store.exist_many([b'k'], timeout=0)):
        with pytest.raises(pealkv.BadArgument):
            call()


# -- memory

def shared_numpy():
    fd = os.memfd_create('pool')
    os.ftruncate(fd, 1 << 20)
    return numpy.frombuffer(mmap.mmap(fd, 1 << 20), dtype=numpy.uint8), fd


def check_direct(store, area):
    """Both ways, by the daemon itself."""
    value = value_of(9, 300000)
    area[:300000] = value
    assert store.put_many([b'k'], [area[:300000]], direct=True) == [None]
    assert store.get(b'k') == value
    into = area[400000:700000]
    assert store.get_many([b'k'], [into], direct=True) == [300000]
    assert bytes(into) == value


def test_alloc(store):
    with store.alloc(1 << 20) as memory:
        check_direct(store, memory.buffer)
    with pytest.raises(pealkv.BadArgument):
        memory.buffer
    error, = store.get_many([b'k'], [bytearray(300000)], direct=True)
    assert isinstance(error, pealkv.BadArgument)


def test_register(store):
    pool, fd = shared_numpy()
    with store.register(pool):
        check_direct(store, memoryview(pool))
    with store.register(pool[5000:900000]) as memory:
        assert memory.nr_bytes % 4096 == 0 and memory.nr_bytes >= 895000
    with store.register(pool, fd=fd):
        check_direct(store, memoryview(pool))
    os.close(fd)
    # mmap has a descriptor of its own.
    with store.register(pool):
        check_direct(store, memoryview(pool))


def test_register_refused(store, tmp_path):
    path = tmp_path / 'file'
    path.write_bytes(bytes(8192))
    with open(path, 'r+b') as f:
        private = mmap.mmap(f.fileno(), 8192, flags=mmap.MAP_PRIVATE)
    for buffer in (bytearray(8192), numpy.zeros(8192), private, mmap.mmap(-1, 8192)[:]):
        with pytest.raises((pealkv.Unsupported, pealkv.BadArgument)):
            store.register(buffer)
    with pytest.raises(pealkv.Unsupported) as e:
        store.register(bytearray(1 << 20))
    assert 'expected a shared, writable mapping' in str(e.value)


# -- later

def test_futures(store):
    futures = [store.later(store.put, bytes([i]), bytes([i]) * 100) for i in range(50)]
    concurrent.futures.wait(futures)
    assert [store.later(store.get, bytes([i])).result()[0] for i in range(50)] == list(range(50))
    with pytest.raises(pealkv.BadArgument):
        store.later(store.get, b'').result()


def test_asyncio(store):
    async def main():
        await asyncio.gather(*[store.aio(store.put, bytes([i]), b'v') for i in range(20)])
        return await asyncio.gather(*[store.aio(store.get, bytes([i])) for i in range(21)])

    assert asyncio.run(main()) == [b'v'] * 20 + [None]


def test_asyncio_cancelled(own):
    """The buffer is in use until the task has ended, not longer."""
    async def main(store, pid):
        buffer = bytearray(200000)
        stop(pid)
        task = asyncio.create_task(store.aio(store.get_into, b'k', buffer, timeout=0.3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.kill(pid, signal.SIGCONT)
        return buffer

    with pealkv.open(own) as store:
        store.put(b'k', bytes(200000))
        assert asyncio.run(main(store, daemon_pid(own))) == bytes(200000)
        assert store.get(b'k', timeout=10) == bytes(200000)


def test_eventfd(store):
    with store.completions() as done:
        started = {done.start(store.put_many, [bytes([i])], [b'v']): i for i in range(20)}
        bad = done.start(store.get, b'')
        while started or bad is not None:
            assert select.select([done], [], [], 10)[0]
            for number, result, error in done.drain():
                if number == bad:
                    assert isinstance(error, pealkv.BadArgument)
                    bad = None
                else:
                    del started[number]
                    assert (result, error) == ([None], None)
        assert done.drain() == []
        assert not select.select([done], [], [], 0)[0]
    with pytest.raises(pealkv.BadArgument):
        done.start(store.get, b'k')


def test_threads(store):
    """Each thread's own values, by calls and by batches, more threads than queues."""
    def work(t):
        rng = random.Random(t)
        for i in range(30):
            value = rng.randbytes(rng.choice(SIZES[:6]))
            key = bytes([t, i])
            store.put(key, value)
            assert store.get(key) == value
            buffers = [bytearray(len(value)) for _ in range(3)]
            assert store.get_many([key] * 3, buffers) == [len(value)] * 3
            assert all(b == value for b in buffers)
            store.delete(key)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, t) for t in range(8)]:
            future.result()


def test_gil(own):
    """A call that waits doesn't hold it: another thread lets the daemon go on."""
    with pealkv.open(own, timeout=60) as store:
        store.put(b'k', b'v')
        pid = daemon_pid(own)
        stop(pid)
        waiting = threading.Event()

        def wake():
            waiting.wait()
            os.kill(pid, signal.SIGCONT)

        thread = threading.Thread(target=wake)
        thread.start()
        waiting.set()
        assert store.get(b'k') == b'v'
        thread.join()


# -- life

def test_close(store, uri):
    client = pealkv.open(uri)
    memory = client.alloc(4096)
    client.put_many([b'k'], [b'v'])
    client.close()
    client.close()
    for call in (lambda: client.get(b'k'), lambda: client.get_many([b'k'], [bytearray(1)]),
                 lambda: client.later(client.get, b'k'), memory.release):
        with pytest.raises(pealkv.BadArgument) as e:
            call()
        assert 'closed' in str(e.value)
    assert store.get(b'k') == b'v'


def test_fork(store, uri):
    store.put(b'k', b'v')
    store.get_many([b'k'], [bytearray(1)])
    store.later(store.get, b'k').result()
    pid = os.fork()
    if not pid:
        try:
            for call in (lambda: store.get(b'k'), lambda: store.later(store.get, b'k'),
                         lambda: store.get_many([b'k'], [bytearray(1)]), store.completions):
                with pytest.raises(pealkv.Forked):
                    call()
            store.close()
            with pealkv.open(uri) as own_client:
                assert own_client.get(b'k') == b'v'
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert store.get(b'k') == b'v'


def test_stopped(own):
    """Every call ends with its time, batches with theirs, and nothing comes late into a buffer."""
    with pealkv.open(own) as store:
        names = [bytes([i]) for i in range(64)]
        store.put_many(names, [b'v' * 100000] * 64)
        pid = daemon_pid(own)
        stop(pid)
        buffers = [bytearray(100000) for _ in names]
        with pytest.raises(pealkv.Timeout):
            store.get(b'\0', timeout=0.05)
        got = store.get_many(names, buffers, timeout=0.2)
        assert {type(e) for e in got} == {pealkv.Timeout}
        os.kill(pid, signal.SIGCONT)
        fresh = [bytearray(100000) for _ in names]
        assert store.get_many(names, fresh, timeout=30) == [100000] * 64
        assert not any(map(any, buffers))
        assert store.stats().timeouts > 0


def test_killed(own):
    with pealkv.open(own) as store:
        store.put(b'k', b'v')
        os.kill(daemon_pid(own), signal.SIGKILL)
        while True:
            try:
                got = store.get(b'k')
                if got is None:
                    break
                assert got == b'v'
            except (pealkv.Disconnected, pealkv.Timeout):
                continue
        store.put(b'k', b'w')
        got = store.get_many([b'k'], [bytearray(1)])
        assert got == [1]
        assert store.stats().reconnects >= 1


OPENER = '''
import sys, pealkv
store = pealkv.open(sys.argv[1])
store.put(sys.argv[2].encode(), b"v")
print(store.info().subsystem, flush=True)
sys.stdin.read()
'''


def test_openers_race(tmp_path):
    """Eight at once: one daemon, which all are attached to."""
    uri = f'spawn:{tmp_path}/d?dram=64M&linger=1'
    openers = [subprocess.Popen([sys.executable, '-c', OPENER, uri, str(i)], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE) for i in range(8)]
    lines = {p.stdout.readline() for p in openers}
    with pealkv.open(uri) as store:
        assert sorted(store.list()) == [str(i).encode() for i in range(8)]
    assert len(lines) == 1 and lines != {''}
    for p in openers:
        p.communicate()
        assert p.returncode == 0
    # It outlives them by its linger time.
    with pealkv.open(uri) as store:
        assert store.get(b'3') == b'v'


def test_ssd(tmp_path):
    """What memory gave up comes back, from below."""
    uri = f'spawn:{tmp_path}/d?dram=64M&ssd=768M&linger=1&reactors=1'
    names = [bytes([i]) for i in range(120)]
    with pealkv.open(uri, timeout=30) as store:
        for name in names:
            store.put(name, value_of(name[0], 1 << 20))
        store.flush()
        match = store.match(names)
        assert match.in_memory < match.present == 120
        for name in names:
            assert store.get(name) == value_of(name[0], 1 << 20)
        assert store.estimate(names, 1 << 20).is_measured


@pytest.mark.parametrize('uri, says', [
    ('tcp:host', 'expected vfu:PATH'), ('spawn:/x?ssd=1G', 'ssd without dram'),
    ('spawn:/x?dram=lots', "dram is 'lots'"), ('', 'unknown scheme'),
])
def test_uris(uri, says):
    with pytest.raises(pealkv.BadArgument) as e:
        pealkv.open(uri)
    assert says in str(e.value)


def test_nobody(tmp_path):
    with pytest.raises(pealkv.PealError) as e:
        pealkv.open(f'vfu:{tmp_path}/cntrl')
    assert str(tmp_path) in str(e.value)


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    with pealkv.open('spawn:~/d?dram=64M&linger=1') as store:
        store.put(b'k', b'v')
    assert (tmp_path / 'd' / 'peald.log').exists()


def test_names(store):
    """Two spaces with the same engine keys never meet."""
    fields = {'model': 'm', 'dtype': 'd', 'layout': 'l', 'hash': 'h', 'block_tokens': 16}
    one, two = (keys.Space(**fields, salt=salt) for salt in (b'1', b'2'))
    key, tag = one.name(b'block')
    store.put(key, b'v', tag=tag)
    assert store.get(key, want_tag=tag) == b'v'
    assert store.get(two.key(b'block')) is None
    assert store.get(key, want_tag=two.name(b'block')[1]) is None
