# SPDX-License-Identifier: Apache-2.0
"""LMCache's own code over Peal: its L2 adapter with what its adapters promise in public, its
benchmark with every byte compared, and its server, restarted and warm."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import torch

from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter import NativePluginL2AdapterConfig
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj
from lmcache.v1.platform import consume_fd
from rig import Daemon

import pealkv

LMCACHE = os.path.join(os.path.dirname(sys.executable), 'lmcache')
ENV = {**os.environ, 'LMCACHE_DISABLE_BANNER': '1', 'LMCACHE_TRACK_USAGE': 'false',
       'OMP_NUM_THREADS': '1'}
VALUE = 300 * 1024
WAIT_S = 60
START_S = 400  # a busy machine takes minutes to import it all


def settings(uri, **more):
    return {'type': 'native_plugin', 'module_path': 'pealkv.lmcache', 'class_name': 'PealClient',
            'adapter_params': {'uri': uri, 'revision': 'test float32', 'timeout_s': 20.0}, **more}


def adapter_of(uri, **more):
    return create_l2_adapter(NativePluginL2AdapterConfig.from_dict(settings(uri, **more)))


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(tmp_path / 'd', 'dram 256M').start()
    yield made
    made.end(signal.SIGKILL)


@pytest.fixture
def adapter(daemon):
    made = adapter_of(daemon.uri, max_capacity_gb=0.25)
    yield made
    made.close()


def key(i, **more):
    return ObjectKey(**{'chunk_hash': i.to_bytes(32, 'big'), 'model_name': 'org/model',
                        'kv_rank': 0x01000100, **more})


def memory(seed, nr_bytes=VALUE, offset=0):
    """An object of LMCache's; seed None: nothing in it. It lies `offset` off 64 bytes."""
    backing = torch.zeros(nr_bytes + 128, dtype=torch.uint8)
    at = -backing.data_ptr() % 64 + offset
    raw = backing[at : at + nr_bytes]
    if seed is not None:
        raw.copy_(torch.randint(0, 256, (nr_bytes,), dtype=torch.uint8,
                                generator=torch.Generator().manual_seed(seed)))
    return TensorMemoryObj(raw, MemoryObjMetadata(
        shape=torch.Size([nr_bytes]), dtype=torch.uint8, address=0, phy_size=nr_bytes,
        fmt=MemoryFormat.KV_2LTD, ref_count=1), parent_allocator=None)


def until(fd, look):
    """What look() says when it says something, asked each time that fd is readable."""
    while True:
        assert select.select([fd], [], [], WAIT_S)[0], 'nothing ends'
        consume_fd(fd)
        said = look()
        if said:
            return said


def store(adapter, keys, objects):
    task = adapter.submit_store_task(keys, objects)
    return until(adapter.get_store_event_fd(), adapter.pop_completed_store_tasks)[task]


def bits(bitmap, nr):
    return [bitmap.test(i) for i in range(nr)]


def lookup(adapter, keys):
    task = adapter.submit_lookup_and_lock_task(keys, {0: MemoryLayoutDesc(shapes=[], dtypes=[])})
    said = until(adapter.get_lookup_and_lock_event_fd(),
                 lambda: adapter.query_lookup_and_lock_result(task))
    assert adapter.query_lookup_and_lock_result(task) is None  # once
    return bits(said, len(keys))


def load(adapter, keys, objects):
    task = adapter.submit_load_task(keys, objects)
    said = until(adapter.get_load_event_fd(), lambda: adapter.query_load_result(task))
    assert adapter.query_load_result(task) is None
    return bits(said, len(keys))


# -- what LMCache's adapters promise

def test_store_lookup_load_delete(adapter):
    keys, objects = [key(i) for i in range(6)], [memory(i, offset=8 * i) for i in range(6)]
    fds = {adapter.get_store_event_fd(), adapter.get_lookup_and_lock_event_fd(),
           adapter.get_load_event_fd()}
    assert len(fds) == 3
    assert lookup(adapter, keys) == [False] * 6
    done = store(adapter, keys, objects)
    assert done.is_successful()
    assert lookup(adapter, [*keys, key(99)]) == [True] * 6 + [False]
    back = [memory(None, offset=16 * i + 1) for i in range(6)]
    assert load(adapter, keys, back) == [True] * 6
    for a, b in zip(objects, back, strict=True):
        assert torch.equal(a.raw_data, b.raw_data)
    adapter.submit_unlock(keys)
    adapter.submit_unlock(keys)  # of what isn't locked: nothing
    adapter.delete(keys[:2])
    assert lookup(adapter, keys) == [False, False] + [True] * 4
    status = adapter.report_status()
    assert status['is_healthy'] and status['type'] == 'PealClient'


def test_load_of_some(adapter):
    """Each key by itself: what is there is loaded, what isn't is recomputed."""
    keys, objects = [key(i) for i in range(5)], [memory(i) for i in range(5)]
    assert store(adapter, keys, objects).is_successful()
    adapter.delete([keys[1], keys[4]])
    back = [memory(None) for _ in keys]
    assert load(adapter, keys, back) == [True, False, True, True, False]
    for i in (0, 2, 3):
        assert torch.equal(objects[i].raw_data, back[i].raw_data)


def test_load_after_evict(tmp_path):
    """A lock is LMCache's own count: Peal may have evicted what was looked up, and that is a miss,
    not the bytes of another."""
    with Daemon(tmp_path / 'd', 'dram 16M') as daemon:
        evict_and_load(adapter_of(daemon.start().uri))


def evict_and_load(adapter):
    assert store(adapter, [key(0)], [memory(0)]).is_successful()
    assert lookup(adapter, [key(0)]) == [True]
    for i in range(1, 81):
        assert store(adapter, [key(i)], [memory(i)]).is_successful()
    back = [memory(None), memory(None)]
    assert load(adapter, [key(0), key(80)], back) == [False, True]
    assert torch.equal(back[1].raw_data, memory(80).raw_data)
    adapter.close()


def test_capacity(adapter):
    """LMCache's books: what was stored, of how much; a second store of a key counts once; what Peal
    had evicted before it was deleted goes off them, too."""
    keys = [key(i) for i in range(4)]
    for _ in range(2):
        assert store(adapter, keys, [memory(i) for i in range(4)]).is_successful()
    usage = adapter.get_usage()
    assert usage.total_capacity_bytes == 1 << 28
    assert usage.total_bytes_used == 4 * VALUE
    capacity, used = adapter._client.capacity()
    assert capacity == 1 << 28 and used >= 4 * VALUE
    other = pealkv.open(adapter._client._link.uri)
    other.delete(next(iter(other.list())))
    other.close()
    adapter.delete(keys)
    assert adapter.get_usage().total_bytes_used == 0


@pytest.mark.parametrize('more', [
    {'cache_salt': 'bob'}, {'object_group_id': 1}, {'kv_rank': 0x02000200}, {'model_name': 'n'}])
def test_never_anothers(adapter, more):
    """Another salt, group, rank or model with the same tokens."""
    mine, other = key(0, cache_salt='alice'), key(0, **{'cache_salt': 'alice', **more})
    assert store(adapter, [mine], [memory(0)]).is_successful()
    assert lookup(adapter, [mine, other]) == [True, False]
    assert load(adapter, [other], [memory(None)]) == [False]
    assert store(adapter, [other], [memory(1)]).is_successful()
    back = [memory(None), memory(None)]
    assert load(adapter, [mine, other], back) == [True, True]
    assert torch.equal(back[0].raw_data, memory(0).raw_data)
    assert torch.equal(back[1].raw_data, memory(1).raw_data)


def test_damaged(adapter, daemon):
    """One bit of a value turned over in the daemon's memory: a miss."""
    keys, objects = [key(i) for i in range(3)], [memory(i) for i in range(3)]
    assert store(adapter, keys, objects).is_successful()
    assert daemon.flip(bytes(objects[1].raw_data.numpy()), 200000) >= 1
    back = [memory(None) for _ in keys]
    assert load(adapter, keys, back) == [True, False, True]
    assert torch.equal(back[2].raw_data, objects[2].raw_data)


def test_daemon_away(adapter, daemon):
    """Killed: misses, at once; started again: served again."""
    assert store(adapter, [key(0)], [memory(0)]).is_successful()
    daemon.end(signal.SIGKILL)
    for _ in range(3):
        assert not store(adapter, [key(1)], [memory(1)]).is_successful()
        assert lookup(adapter, [key(0)]) == [False]
        assert load(adapter, [key(0)], [memory(None)]) == [False]
    adapter.delete([key(0)])
    daemon.start()
    link, until_s = adapter._client._link, time.monotonic() + WAIT_S
    while not link.is_up:
        assert time.monotonic() < until_s, 'the link never came back'
        with link._lock:
            link._lock.wait(0.05)
    assert store(adapter, [key(1)], [memory(1)]).is_successful()
    assert lookup(adapter, [key(0), key(1)]) == [False, True]


def test_refused_by_name(tmp_path):
    said = settings(f'vfu:{tmp_path}')
    del said['adapter_params']['revision']
    with pytest.raises(ValueError, match='revision is missing'):
        create_l2_adapter(NativePluginL2AdapterConfig.from_dict(said))


# -- its programs

def test_bench(daemon, tmp_path):
    """lmcache bench l2 --no-skip-verify, as doc/engines.md has it."""
    out = tmp_path / 'bench.json'
    with open(tmp_path / 'log', 'w+', encoding='utf-8') as log:
        subprocess.run(
            [LMCACHE, 'bench', 'l2', '--l2-adapter', json.dumps(settings(daemon.uri)),
             '--data-size-kb', '256', '--num-keys', '16', '--in-flight', '4', '--rounds', '2',
             '--lookup-max-hit-rate', '1', '--no-skip-verify', '--format', 'json', '--output',
             out], env=ENV, stdout=log, stderr=log, check=True)
        log.seek(0)
        said = log.read()
    assert 'data verified OK' in said and 'MISMATCH' not in said and 'mismatches!' not in said
    metrics = json.loads(out.read_text())['metrics']
    for op in ('op_0', 'op_1', 'op_2'):
        assert metrics[op]['total_success'] == metrics[op]['total_keys'] == 128


class Server:
    """lmcache server with a Peal L2."""

    def __init__(self, uri, folder):
        self.ports = [free_port() for _ in range(3)]
        self.log = f'{folder}/server.log'
        self.process = None
        self.command = [
            LMCACHE, 'server', '--host', '127.0.0.1', '--port', str(self.ports[0]), '--http-port',
            str(self.ports[1]), '--prometheus-port', str(self.ports[2]), '--l1-size-gb', '0.25',
            '--eviction-policy', 'LRU', '--supported-transfer-mode', 'auto', '--l2-adapter',
            json.dumps(settings(uri))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(self.command, env=ENV, stdout=log, stderr=log)
        until_s = time.monotonic() + START_S
        while True:
            with open(self.log, encoding='utf-8', errors='replace') as f:
                said = f.read()
            if 'Uvicorn running' in said:
                return
            assert self.process.poll() is None and time.monotonic() < until_s, said[-2000:]
            select.select([], [], [], 0.1)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def talk(self):
        """Two requests of 4 chunks through `lmcache bench server`: for each what was found before
        anything was stored, and the checksum of what came back in the end."""
        out = subprocess.run(
            [LMCACHE, 'bench', 'server', '--rpc-url', f'tcp://127.0.0.1:{self.ports[0]}', '--url',
             f'http://127.0.0.1:{self.ports[1]}', '--mode', 'cpu', '--kvcache-shape-spec',
             '(2,128,16,4,64):float32:4', '--num-blocks', '128', '--num-tokens', '1024', '--end',
             '2', '--interval', '0'], env=ENV, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert 'MISMATCH' not in out
        return (re.findall(r'/cold\] LOOKUP: (\d+)/4 chunks', out),
                re.findall(r'/warm\] CHECKSUM: (\w+)', out))


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def test_server_restarted(tmp_path):
    """kill -9 of lmcache server and a restart of peald, too: what it had comes off the SSD."""
    daemon = Daemon(tmp_path / 'd', f'dram 64M | ssd {tmp_path}/ssd 256M')
    with daemon, Server(daemon.uri, tmp_path) as server:
        daemon.start()
        server.start()
        found, checksums = server.talk()
        assert found == ['0', '0'] and len(checksums) == 2
        at = f'http://127.0.0.1:{server.ports[1]}/status'
        with urllib.request.urlopen(at, timeout=30) as f:
            assert 'PealClient' in f.read().decode()
        server.kill()
        daemon.end()
        daemon.start()
        server.start()
        assert server.talk() == (['4', '4'], checksums)
