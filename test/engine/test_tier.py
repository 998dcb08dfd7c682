# SPDX-License-Identifier: Apache-2.0
"""PealTier under vLLM's own TieringOffloadingManager, made by vLLM's own spec from a configuration
as a user writes it. vLLM's OffloadingConnector refuses the CPU ("only supported on CUDA-alike and
XPU"), so the tests stand in the scheduler's place, and for the GPU they write and read the rows of
the primary tier.

Most of these tests empty the primary tier by vLLM's reset, and so keep what is behind it
(keep_on_reset); test_reset has the default."""

import random
import signal
import threading
import time
import types
import uuid

import pytest
import torch
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

import pealkv
from rig import Daemon

ROW = 256 << 10
ROWS = 12
WAIT_S = 60


def configuration(uri, tier=(), **more):
    fields = {
        'groups': (OffloadingGroupConfig(16, ('layer.0', 'layer.1'), 0),),
        'worker_kv_bytes_per_block': ROW // 4,
        'enable_kv_cache_events': False,
        'engine_id': uuid.uuid4().hex,
        'model': OffloadingModelConfig('org/model', 'float16'),
        'cache': OffloadingCacheConfig(16, 4),
        'parallel': OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, False),
        **more,
    }
    fields['extra_config'] = {
        'cpu_bytes_to_use': ROWS * ROW,
        'secondary_tiers': [{'type': 'PealTier', 'module_path': 'pealkv.vllm', 'uri': uri,
                             'revision': 'test', 'timeout_s': 20.0, 'keep_on_reset': True,
                             **dict(tier)}],
    }
    return OffloadingConfig(**fields)


class Scheduler:
    """What OffloadingConnectorScheduler does with its manager, and the GPU's part."""

    def __init__(self, uri, tier=(), **more):
        self.manager = TieringOffloadingSpec(configuration(uri, tier, **more)).get_manager()
        self.tier, = self.manager.secondary_tiers
        view = self.manager.primary_tier.get_kv_memoryview()
        self.rows = torch.frombuffer(view, dtype=torch.uint8).view(ROWS, ROW)
        self.nr = 0

    def close(self):
        del self.rows
        self.manager.shutdown()

    def request(self):
        self.nr += 1
        context = ReqContext(req_id=f'r{self.nr}')
        self.manager.on_new_request(context)
        return context

    def step(self, *new):
        self.manager.on_schedule_end(ScheduleEndContext(list(new), []))

    def settle(self):
        """Steps until nothing is under way."""
        until = time.monotonic() + WAIT_S
        while self.manager.has_pending_work():
            assert time.monotonic() < until, 'jobs that never end'
            self.step()
            threading.Event().wait(0.002)

    def save(self, keys, seed=0):
        """New blocks, out of the GPU into the primary tier and on; the rows' bytes by key."""
        context = self.request()
        out = self.manager.prepare_store(keys, context)
        assert out is not None and list(out.keys_to_store) == list(keys)
        for key, row in zip(keys, out.store_spec.chunk_ids):
            self.rows[int(row)].copy_(bytes_of(key, seed))
        self.manager.complete_store(keys, context)
        self.manager.on_request_finished(context)

    def find(self, keys, context=None):
        """The answers for a prompt's blocks, when the scheduler no longer has to ask again."""
        context, mine = context or self.request(), context is None
        until = time.monotonic() + WAIT_S
        while True:
            said = [self.manager.lookup(key, context) for key in keys]
            self.step(context.req_id)
            if not {LookupResult.RETRY, LookupResult.HIT_PENDING} & set(said):
                break
            assert time.monotonic() < until, said
            threading.Event().wait(0.002)
        if mine:
            self.manager.on_request_finished(context)
        return [s is LookupResult.HIT for s in said]

    def load(self, keys):
        """What the GPU would get."""
        context = self.request()
        spec = self.manager.prepare_load(keys, context)
        got = [self.rows[int(row)].clone() for row in spec.chunk_ids]
        self.manager.complete_load(keys, context)
        self.manager.on_request_finished(context)
        return got

    def forget(self):
        """The primary tier is empty; what is behind it stays."""
        self.settle()
        self.manager.reset_cache()


def key(i, group=0):
    return make_offload_key(i.to_bytes(32, 'big'), group)


def bytes_of(key, seed=0):
    data = bytearray(random.Random(key + bytes([seed])).randbytes(ROW))
    return torch.frombuffer(data, dtype=torch.uint8)


def check(scheduler, keys):
    for k, row in zip(keys, scheduler.load(keys), strict=True):
        assert torch.equal(row, bytes_of(k))


def wait_for_link(link):
    until = time.monotonic() + WAIT_S
    while not link.is_up:
        assert time.monotonic() < until, 'the link never came back'
        with link._lock:
            link._lock.wait(0.05)


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path / 'd', 'dram 256M') as made:
        yield made.start()


@pytest.fixture
def scheduler(daemon):
    made = Scheduler(daemon.uri)
    yield made
    made.close()


KEYS = [key(i) for i in range(8)]


def test_back_after_restart(daemon, scheduler):
    """Saved by one engine, found by the next, each byte of each row."""
    scheduler.save(KEYS)
    scheduler.settle()
    other = Scheduler(daemon.uri)
    assert other.find([*KEYS, key(99)]) == [True] * 8 + [False]
    check(other, KEYS)
    other.close()
    assert other.tier.counts()['chunks_loaded'] == 8
    scheduler.forget()
    assert scheduler.find(KEYS) == [True] * 8
    check(scheduler, KEYS)


def test_batches(scheduler):
    """All questions of a step go out as one, all blocks of a request come as one job, and what is
    there isn't saved again."""
    started = []
    start = scheduler.tier._mover.start
    scheduler.tier._mover.start = lambda t: (started.append((t.verb, len(t.engine_keys))), start(t))
    scheduler.save(KEYS)
    scheduler.settle()
    scheduler.forget()
    scheduler.find(KEYS)
    assert sorted(started) == [('exist', 8), ('get', 8), ('hint', 8), ('save', 8)]
    scheduler.forget()
    before = scheduler.tier._link.client().stats().bytes_in
    scheduler.save(KEYS)
    scheduler.settle()
    assert scheduler.tier._link.client().stats().bytes_in == before
    assert scheduler.tier.counts()['chunks_saved'] == 16


def test_never_waits(daemon):
    """With a daemon that is stopped, and calls that would wait for minutes, each call of the
    scheduler returns; when the daemon goes on, all that was begun is done."""
    scheduler = Scheduler(daemon.uri, {'timeout_s': 600.0})
    scheduler.save(KEYS[:4])
    scheduler.forget()
    found = scheduler.request()
    until = time.monotonic() + WAIT_S
    while scheduler.tier.lookup(KEYS[0], found) is LookupResult.RETRY:
        assert time.monotonic() < until
        scheduler.step()
    waited = []
    watch = threading.Timer(WAIT_S, lambda: waited.append(1) or daemon.go_on())
    watch.start()
    daemon.stop()
    try:
        context = scheduler.request()
        for i in range(3):
            said = [scheduler.manager.lookup(k, context) for k in KEYS]
            scheduler.save([key(20 + i)])
            scheduler.step()
        assert said[0] is LookupResult.HIT_PENDING and set(said[4:]) == {LookupResult.RETRY}
    finally:
        watch.cancel()
        daemon.go_on()
    assert not waited
    assert scheduler.find(KEYS, context) == [True] * 4 + [False] * 4
    scheduler.manager.on_request_finished(context)
    scheduler.manager.on_request_finished(found)
    scheduler.forget()
    assert scheduler.find([key(20), key(21), key(22)]) == [True] * 3
    scheduler.close()


def test_never_blocks(daemon, scheduler):
    """With a daemon that is stopped what was asked becomes a miss, what was to be saved is dropped,
    and nothing is written late into rows."""
    scheduler.save(KEYS)
    scheduler.forget()
    quick = Scheduler(daemon.uri, {'timeout_s': 0.5})
    context = quick.request()
    for k in KEYS:
        quick.manager.lookup(k, context)
    quick.step()
    until = time.monotonic() + WAIT_S
    while quick.tier.lookup(KEYS[7], context) is LookupResult.RETRY:
        assert time.monotonic() < until
        threading.Event().wait(0.002)
    assert quick.manager.lookup(KEYS[0], context) is LookupResult.HIT_PENDING
    daemon.stop()
    began = time.process_time()
    quick.step()  # the load of that block begins here
    quick.save([key(i) for i in range(20, 24)])
    assert quick.find(KEYS, context) == [False] * 8
    quick.settle()
    assert time.process_time() - began < 30  # it waits, but doesn't spin
    quick.manager.on_request_finished(context)
    counts = quick.tier.counts()
    assert counts['chunks_lost'] == 8 and counts['chunks_dropped'] == 4
    assert counts['loads_failed'] >= 1 and counts['stores_failed'] == 1
    assert quick.tier._link.downs == 1
    quick.rows.fill_(0xee)
    daemon.go_on()
    assert scheduler.find(KEYS) == [True] * 8
    check(scheduler, KEYS)
    assert bool((quick.rows == 0xee).all())
    quick.close()


def test_killed(daemon, scheduler):
    """Misses; then there is a daemon again, and what is saved from then on is found."""
    scheduler.save(KEYS)
    scheduler.forget()
    daemon.end(signal.SIGKILL)
    assert scheduler.find(KEYS) == [False] * 8
    scheduler.save(KEYS)
    scheduler.forget()
    daemon.start()
    wait_for_link(scheduler.tier._link)
    scheduler.save(KEYS[:4])
    scheduler.forget()
    assert scheduler.find(KEYS) == [True] * 4 + [False] * 4
    check(scheduler, KEYS[:4])


def test_lost_since(daemon, scheduler):
    """Found, but gone or damaged when it is loaded: that block is a miss, the others are loaded,
    and nobody asks for it for ever."""
    scheduler.save(KEYS)
    scheduler.forget()
    assert daemon.flip(bytes(bytes_of(KEYS[3]).numpy()), 100000) >= 1
    assert scheduler.find(KEYS) == [True] * 3 + [False] + [True] * 4
    good = KEYS[:3] + KEYS[4:]
    check(scheduler, good)
    assert scheduler.tier.counts()['chunks_lost'] == 1


def test_prefetch(tmp_path):
    """What is found below the daemon's memory is on its way up before it is asked for."""
    with Daemon(tmp_path / 'd', f'dram 16M | ssd {tmp_path}/ssd 256M') as daemon:
        scheduler = Scheduler(daemon.start().uri)
        for i in range(0, 160, 8):
            scheduler.save([key(i + j) for j in range(8)])
            scheduler.forget()
        tier, context = scheduler.tier, scheduler.request()
        client, made = tier._link.client(), [tier._space.key(k) for k in KEYS]
        before = client.match(made)
        assert (before.present, before.in_memory) == (8, 0)
        for k in KEYS:
            tier.lookup(k, context)  # the tier's alone: no load begins
        tier.on_schedule_end(None)
        until = time.monotonic() + WAIT_S
        while client.match(made).in_memory < 8:
            assert time.monotonic() < until, 'nothing brings it up'
            threading.Event().wait(0.01)
        scheduler.manager.on_request_finished(context)
        assert scheduler.find(KEYS) == [True] * 8
        check(scheduler, KEYS)
        assert not tier.counts()['hints_failed']
        scheduler.close()


def test_hint_fails(scheduler):
    """It has its deadline, is counted, and takes the link down as any other call."""
    scheduler.save(KEYS)
    scheduler.forget()
    link, given = scheduler.tier._link, []
    client = link.client()

    def hint(hints, timeout):
        given.append(timeout)
        raise pealkv.Timeout('late')

    client.hint = hint
    context = scheduler.request()
    scheduler.tier.lookup(KEYS[0], context)
    scheduler.tier.on_schedule_end(None)
    until = time.monotonic() + WAIT_S
    while not scheduler.tier.counts().get('hints_failed'):
        assert time.monotonic() < until
        threading.Event().wait(0.002)
    assert scheduler.tier.lookup(KEYS[0], context) is LookupResult.HIT
    assert 0 < given[0] <= 20 and link.downs == 1
    scheduler.manager.on_request_finished(context)


def test_older_answer(daemon, scheduler):
    """The answer to a request's question, come when that is gone, isn't the next one's."""
    tier, held = scheduler.tier, []
    answer, tier._answer = tier._answer, lambda *said: held.append(said)
    first = scheduler.request()
    scheduler.manager.lookup(KEYS[0], first)
    scheduler.step()
    until = time.monotonic() + WAIT_S
    while not held:
        assert time.monotonic() < until
        threading.Event().wait(0.002)
    scheduler.manager.on_request_finished(first)
    tier._answer = answer
    other = Scheduler(daemon.uri)
    other.save(KEYS[:1])
    other.settle()
    other.close()
    second = scheduler.request()
    assert scheduler.manager.lookup(KEYS[0], second) is LookupResult.RETRY
    answer(*held[0])  # "no"
    assert scheduler.manager.lookup(KEYS[0], second) is LookupResult.RETRY
    assert scheduler.find(KEYS[:1], second) == [True]
    scheduler.manager.on_request_finished(second)


def test_there_since(scheduler):
    """A miss that a request was told ends with the save: who asks while it still runs finds it."""
    context = scheduler.request()
    assert scheduler.find(KEYS, context) == [False] * 8
    scheduler.save(KEYS)
    scheduler.forget()
    assert scheduler.find(KEYS) == [True] * 8
    check(scheduler, KEYS)
    scheduler.manager.on_request_finished(context)


def test_reset(daemon):
    """vLLM empties its caches, as it does with other weights: what was stored before is never met
    again, also by a request that had found it, and what is stored after is. An engine that starts
    anew has the weights of its revision, and finds what was stored under it."""
    scheduler = Scheduler(daemon.uri, {'keep_on_reset': False})
    scheduler.save(KEYS[:4])
    scheduler.settle()
    context = scheduler.request()
    scheduler.tier.lookup(KEYS[0], context)
    scheduler.tier.on_schedule_end(None)
    until = time.monotonic() + WAIT_S
    while scheduler.tier.lookup(KEYS[0], context) is LookupResult.RETRY:
        assert time.monotonic() < until
        threading.Event().wait(0.002)
    assert scheduler.tier.lookup(KEYS[0], context) is LookupResult.HIT
    scheduler.forget()
    assert scheduler.find(KEYS, context) == [False] * 8
    scheduler.manager.on_request_finished(context)
    scheduler.save(KEYS[2:6], seed=1)
    scheduler.settle()
    scheduler.manager.primary_tier.reset_cache()
    assert scheduler.find(KEYS) == [False] * 2 + [True] * 4 + [False] * 2
    for k, row in zip(KEYS[2:6], scheduler.load(KEYS[2:6]), strict=True):
        assert torch.equal(row, bytes_of(k, 1))
    scheduler.close()
    other = Scheduler(daemon.uri)
    assert other.find(KEYS) == [True] * 4 + [False] * 4
    check(other, KEYS[:4])
    other.close()


def test_save_bytes(daemon):
    """Beyond save_bytes stores are dropped, not queued."""
    scheduler = Scheduler(daemon.uri, {'save_bytes': 4 * ROW, 'timeout_s': 300.0})
    daemon.stop()
    scheduler.save(KEYS[:4])
    scheduler.save(KEYS[4:8])
    scheduler.step()
    assert scheduler.tier.counts()['stores_dropped'] == 1
    daemon.go_on()
    scheduler.forget()
    assert scheduler.find(KEYS) == [True] * 4 + [False] * 4
    scheduler.close()


def test_back_pressure(daemon):
    """What vLLM's own detector holds back doesn't reach the tier, and what it lets through does."""
    scheduler = Scheduler(daemon.uri, {'backpressure': {
        'backpressure_cls': 'EMABackpressureDetector'}})
    detector = scheduler.tier.bp_detector
    scheduler.save(KEYS[:4])
    scheduler.settle()
    detector.reset()
    for _ in range(20):
        detector.on_store_completed(1000.0, ROW)
    assert detector.is_under_pressure()
    scheduler.save(KEYS[4:8])
    scheduler.forget()
    assert scheduler.tier.counts()['chunks_saved'] == 4
    assert scheduler.find(KEYS) == [True] * 4 + [False] * 4
    scheduler.close()


@pytest.mark.parametrize('other', [
    {'salt': 'x'}, {'revision': 'y'},
    {'model': OffloadingModelConfig('org/other', 'float16')},
    {'model': OffloadingModelConfig('org/model', 'bfloat16')},
    {'groups': (OffloadingGroupConfig(16, ('layer.0', 'layer.2'), 0),)},
    {'cache': OffloadingCacheConfig(8, 4)},
    {'parallel': OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, False),
     'kv_cache_layout': 'HND'},
])
def test_never_anothers(daemon, scheduler, other):
    scheduler.save(KEYS)
    scheduler.settle()
    tier = {n: other[n] for n in ('salt', 'revision') if n in other}
    more = {n: v for n, v in other.items() if n not in tier}
    stranger = Scheduler(daemon.uri, tier, **more)
    assert stranger.find(KEYS) == [False] * 8
    stranger.save(KEYS, seed=1)
    stranger.settle()
    stranger.close()
    for owner, seed in (((), 0), ((tier, more), 1)):  # each its own, by the same configuration
        same = Scheduler(daemon.uri, *owner[:1], **(owner[1] if owner else {}))
        assert same.find(KEYS) == [True] * 8
        for k, row in zip(KEYS, same.load(KEYS), strict=True):
            assert torch.equal(row, bytes_of(k, seed))
        same.close()


def test_groups(scheduler):
    """One hash in two KV cache groups is two blocks."""
    a, b = key(1, 0), key(1, 1)
    scheduler.save([a])
    scheduler.forget()
    assert scheduler.find([a, b]) == [True, False]


def test_rows(scheduler):
    """A row that isn't there is refused, and costs nothing."""
    tier = scheduler.tier
    for ids in ([-1], [1 << 30], [0, 1]):
        job = types.SimpleNamespace(keys=[KEYS[0]], chunk_ids=ids)
        for submit in (tier.submit_store, tier.submit_load):
            with pytest.raises(ValueError, match='row'):
                submit(job)
    assert not tier._nr_jobs and not tier._saving_bytes


def test_finished_requests_leave_nothing(scheduler):
    scheduler.save(KEYS)
    scheduler.forget()
    for _ in range(20):
        context = scheduler.request()
        scheduler.manager.lookup(KEYS[0], context)
        scheduler.manager.lookup(key(77), context)
        scheduler.manager.on_request_finished(context)
        scheduler.step()
    scheduler.find(KEYS)
    scheduler.settle()
    tier = scheduler.tier
    assert not tier._asked and not tier._of_req and not tier._nr_jobs and not tier._saving_bytes


@pytest.mark.parametrize('tier, why', [
    ({'uri': ''}, 'uri is missing'), ({'revision': ''}, 'revision'), ({'colour': 'red'}, 'colour'),
    ({'threads': 0}, 'threads'), ({'save_bytes': '1X'}, '1X'), ({'salt': 5}, 'salt'),
    ({'timeout_s': '2'}, 'timeout_s'), ({'uri': 7}, 'uri'), ({'uri': '/run/peal'}, 'scheme'),
    ({'keep_on_reset': 'no'}, 'keep_on_reset')])
def test_refused(daemon, tier, why):
    with pytest.raises(ValueError, match=why):
        Scheduler(daemon.uri, tier)


def test_too_large(tmp_path):
    with Daemon(tmp_path / 'd', 'dram 64M') as daemon:
        daemon.more = ['--value-max', '128K']
        with pytest.raises(ValueError, match='smaller block_size'):
            Scheduler(daemon.start().uri)


def test_no_daemon(tmp_path):
    scheduler = Scheduler(f'vfu:{tmp_path}/none', {'timeout_s': 0.5})
    assert scheduler.find(KEYS) == [False] * 8
    scheduler.save(KEYS)
    scheduler.settle()
    scheduler.close()


def test_weights_of_a_folder(tmp_path, daemon):
    """Without a revision: by the model's files. Another file, other keys."""
    (tmp_path / 'm').mkdir()
    (tmp_path / 'm/config.json').write_text('{}')
    (tmp_path / 'm/model.safetensors').write_bytes(bytes(1000))
    model = OffloadingModelConfig(str(tmp_path / 'm'), 'float16')
    digests = set()
    for data in (bytes(1000), bytes(999) + b'x'):
        (tmp_path / 'm/model.safetensors').write_bytes(data)
        scheduler = Scheduler(daemon.uri, {'revision': ''}, model=model)
        digests.add(scheduler.tier._space.digest)
        scheduler.close()
    (tmp_path / 'm/config.json').write_text('{"rope": 1}')
    scheduler = Scheduler(daemon.uri, {'revision': ''}, model=model)
    digests.add(scheduler.tier._space.digest)
    scheduler.close()
    assert len(digests) == 3
    with pealkv.open(daemon.uri) as client:
        assert not list(client.list())
