# SPDX-License-Identifier: Apache-2.0
"""The parts of the vLLM connector that need no vLLM: the scheduler's half with plain objects in the
engine's place, load or recompute, options, what weights are."""

import logging
import os
import signal
import time
import types

import pytest

import pealkv
from pealkv import _link
from pealkv.vllm import _config, _meta, _rates, _scheduler
from test_client import daemon_pid

LOG = logging.getLogger('test')
GIGA = 1e9


# -- load or recompute

def never():
    raise AssertionError('asked without need')


def test_what_beats_computing():
    rates = _rates.Rates()
    rates.learn(8 * GIGA, 0, 1.0)
    assert rates.memory == 8 * GIGA
    assert rates.choose(10, 0, 32 << 20, 100, never).values == 10  # not known: loaded
    # 10 values of 32 MiB in 42 ms and 4 ms, or 10 ms each.
    rates.learn_compute(1000, 0.1)
    rates.learn_compute(3, 9)  # too few to say something
    rates.learn_compute(1000, 0)
    choice = rates.choose(10, 10, 32 << 20, 100, never)
    assert choice.values == 10 and choice.compute_s == pytest.approx(0.1)
    assert choice.load_s == pytest.approx(0.046, abs=0.001)
    assert rates.choose(10, 10, 32 << 20, 10, never).values == 0
    assert rates.choose(1, 1, 4096, 30, never).values == 0  # a load takes steps besides


def test_slow_tier():
    rates = _rates.Rates()
    rates.learn(GIGA, GIGA, 10.0)
    rates.learn_compute(1000, 0.1)
    assert rates.below == GIGA / 10
    assert rates.choose(8, 0, 10 ** 8, 5000, never).values == 0
    # Of 8 values 5 are in memory, 3 of them at the start: 0.1 s and 2.5 s; all of them: 3.1 s.
    assert rates.choose(8, 5, 10 ** 8, 5000, lambda: 3).values == 3
    assert rates.choose(8, 5, 10 ** 8, 5000, lambda: 0).values == 8
    assert rates.choose(8, 1, 10 ** 8, 5000, lambda: 1).values == 1
    assert rates.choose(8, 1, 10 ** 8, 5000, lambda: 0).values == 0


def test_tries_again():
    """A tier that isn't read is never measured: now and then it is."""
    rates = _rates.Rates()
    rates.learn(GIGA, GIGA, 10.0)
    rates.learn_compute(1000, 0.1)
    tried = [rates.choose(8, 0, 10 ** 8, 5000, never) for _ in range(2 * _rates.RETRY)]
    assert [c.values for c in tried].count(8) == 2 == [c.is_retry for c in tried].count(True)


def test_learns():
    rates = _rates.Rates()
    for took in (1.0, 0.5, 0.5, 0.5):
        rates.learn(GIGA, 0, took)
    assert GIGA < rates.memory < 2 * GIGA
    rates.learn(0, 0, 1)
    rates.learn(GIGA, 0, 0)
    assert GIGA < rates.memory < 2 * GIGA
    rates.learn(2 * GIGA, GIGA, 1e-9)  # quicker than memory: no rate without an end
    assert rates.below > 0


# -- the way to the daemon

def until(what):
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError('it never came')


def test_link(tmp_path, caplog):
    """A daemon that dies: calls say so at once, one line does, and another one is started."""
    caplog.set_level(logging.INFO)
    uri = f'spawn:{tmp_path}/d?dram=64M&linger=1'
    link = _link.Link(uri, 5.0, LOG)
    link.client().put(b'k', b'v')
    link.failed(pealkv.NoSpace('of one value'))
    assert link.is_up and link.downs == 0
    os.kill(daemon_pid(uri), signal.SIGKILL)

    def is_lost():
        try:
            return link.client().get(b'k') is None
        except pealkv.PealError as e:
            for _ in range(3):
                link.failed(e)
        except _link.Down:
            return True
        return False

    until(is_lost)
    with pytest.raises(_link.Down):
        link.client()
    until(lambda: link.is_up)
    link.client().put(b'k', b'v')
    assert link.client().get(b'k') == b'v' and link.downs == 1
    link.close()
    assert [r.levelname for r in caplog.records] == ['WARNING', 'INFO']
    with pytest.raises(_link.Down):
        link.client()


def test_link_without_a_daemon(tmp_path, caplog):
    """At the start: no error, and no harm when it is closed while it tries."""
    link = _link.Link(f'vfu:{tmp_path}/none', 1.0, LOG)
    assert not link.is_up and link.downs == 1
    with pytest.raises(_link.Down):
        link.client()
    link.close()
    assert len(caplog.records) == 1


@pytest.mark.parametrize('uri, why', [
    ('/run/peal', 'scheme'), ('spawn:{}/d?drum=1G', 'drum'), ('spawn:{}/d?ssd=1G', 'dram')])
def test_link_to_nowhere(tmp_path, uri, why):
    """A URI that isn't one is told at the start: no daemon will ever be there."""
    with pytest.raises(ValueError, match=why):
        _link.Link(uri.format(tmp_path), 1.0, LOG)


def test_link_to_another_version(monkeypatch):
    """What a daemon finds invalid is no reason not to start."""
    def refuse(*_args, **_how):
        raise pealkv.BadArgument('the daemon refuses version 0.1: Invalid argument')

    monkeypatch.setattr(pealkv, 'open', refuse)
    link = _link.Link('vfu:/run/peal', 1.0, LOG)
    assert not link.is_up
    link.close()


def test_link_tries_again(tmp_path, monkeypatch):
    """Whatever else went wrong at the start, also what says nothing of the daemon's health."""
    real, errors = pealkv.open, [pealkv.Busy('no queue is left'), pealkv.NoSpace('no room')]

    def opens(*args, **more):
        if errors:
            raise errors.pop()
        return real(*args, **more)

    monkeypatch.setattr(pealkv, 'open', opens)
    link = _link.Link(f'spawn:{tmp_path}/d?dram=64M&linger=1', 5.0, LOG)
    assert not link.is_up and link.downs == 1
    until(lambda: link.is_up)
    link.close()


# -- options

def test_options():
    options = _config.Options.of({'uri': 'vfu:/x', 'load_bytes': '2G', 'save': False})
    assert options.load_bytes == 2 << 30 and not options.save and options.value_tokens == 256
    for bad, word in [({}, 'uri'), ({'uri': ''}, 'uri'), ({'uri': 'x', 'lod': 1}, 'lod'),
                      ({'uri': 'x', 'load': 'sometimes'}, 'sometimes'),
                      ({'uri': 'x', 'load_bytes': '2 GB'}, 'load_bytes'),
                      ({'uri': 'x', 'value_tokens': '256'}, 'value_tokens'),
                      ({'uri': 'x', 'value_tokens': True}, 'value_tokens'),
                      ({'uri': 'x', 'timeout_s': 0}, 'timeout_s')]:
        with pytest.raises(ValueError, match=word):
            _config.Options.of(bad)


class FullAttentionSpec:
    block_size, sliding_window = 128, None


class SlidingWindowSpec(FullAttentionSpec):
    pass


class MLAAttentionSpec(FullAttentionSpec):
    pass


def adapter(folder, text='weights', **more):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'adapter_model.safetensors').write_text(text)
    return types.SimpleNamespace(**{'lora_name': 'a', 'lora_int_id': 1, 'lora_path': str(folder),
                                    **more})


def adapters_after(*paths):
    """Of an engine that begins now: what is done from here on, is after it."""
    changed = max(os.lstat(p).st_ctime for p in paths)
    a = _config.Adapters(0)
    while time.time() <= changed + 0.05:
        pass  # a tick of the file system's clock
    a._began = time.time() - 0.02
    return a


def test_adapters(tmp_path):
    one, two = adapter(tmp_path / 'one'), adapter(tmp_path / 'two', 'others', lora_int_id=2)
    a = adapters_after(tmp_path / 'one', tmp_path / 'two')
    assert a.of(None) == b''
    digests = {a.of(one), a.of(two)}
    assert None not in digests and len(digests) == 2
    assert a.of(one) in digests
    three = types.SimpleNamespace(**vars(one), is_3d_lora_weight=True)
    assert a.of(three) not in {None, *digests}
    assert a.of(types.SimpleNamespace(**vars(one), load_inplace=True)) is None
    assert adapters_after(tmp_path / 'one').of(one) == a.of(one)  # in the next engine
    assert a.of(adapter(tmp_path / 'late', lora_int_id=3)) is None
    (tmp_path / 'one' / 'adapter_model.safetensors').write_text('weights')
    assert a.of(one) is None
    assert a.of(two) in digests
    (tmp_path / 'two' / 'more').touch()
    assert a.of(two) is None
    assert a.of(types.SimpleNamespace(**vars(one) | {'lora_path': 'some/hub'})) is None


def test_adapters_numbers(tmp_path):
    """A number that has stood for two folders stands for none: the engine has read one of them."""
    one, two = adapter(tmp_path / 'one'), adapter(tmp_path / 'two', 'others')
    a = adapters_after(tmp_path / 'one', tmp_path / 'two')
    assert a.of(one)
    assert a.of(two) is None
    assert a.of(one) is None


def test_adapters_moved(tmp_path):
    """Another folder behind a path: by a link that is made anew, or a name further up."""
    old = adapter(tmp_path / 'v' / 'one')
    adapter(tmp_path / 'w' / 'one', 'others')
    link, up = tmp_path / 'link', tmp_path / 'up'
    link.symlink_to('v/../v/one')
    up.symlink_to(tmp_path / 'v')
    by_link = types.SimpleNamespace(**vars(old) | {'lora_path': str(link)})
    by_up = types.SimpleNamespace(**vars(old) | {'lora_path': str(up / 'one')})
    a = adapters_after(link, up)
    assert a.of(old) == a.of(by_link) == a.of(by_up) is not None
    for name in (link, up):
        target = str(os.readlink(name)).replace('v', 'w', 2) if name == link else tmp_path / 'w'
        name.unlink()
        name.symlink_to(target)
    fresh = adapters_after(tmp_path / 'v')
    fresh._began = a._began
    for lora in (by_link, by_up):  # before the first look, and behind one
        assert fresh.of(types.SimpleNamespace(**vars(lora) | {'lora_int_id': 9})) is None
        assert a.of(types.SimpleNamespace(**vars(lora) | {'lora_int_id': 9})) is None
    os.rename(tmp_path / 'v', tmp_path / 'x')
    os.rename(tmp_path / 'w', tmp_path / 'v')
    assert a.of(old) is None
    assert a.of(types.SimpleNamespace(**vars(old) | {'lora_int_id': 10})) is None


def config(**more):
    c = types.SimpleNamespace(
        parallel_config=types.SimpleNamespace(pipeline_parallel_size=1, tensor_parallel_size=1),
        cache_config=types.SimpleNamespace(enable_prefix_caching=True, block_size=128),
        speculative_config=None, lora_config=None,
        kv_transfer_config=types.SimpleNamespace(kv_role='kv_both'))
    for name, value in more.items():
        at = c
        *path, last = name.split('__')
        for part in path:
            at = getattr(at, part)
        setattr(at, last, value)
    return c


def groups(*specs):
    return types.SimpleNamespace(
        kv_cache_groups=[types.SimpleNamespace(kv_cache_spec=s) for s in specs])


def test_refused_by_name():
    options = _config.Options.of({'uri': 'x'})
    full, window = FullAttentionSpec(), FullAttentionSpec()
    window.sliding_window = 4096
    both = types.SimpleNamespace(kv_cache_specs={'a': window, 'b': full}, block_size=128)
    mixed = types.SimpleNamespace(kv_cache_specs={'a': MLAAttentionSpec(), 'b': full},
                                  block_size=128)
    for c, g in [(config(), groups(full)), (config(), groups(window)), (config(), groups(both)),
                 (config(lora_config=1), groups(full)),
                 (config(parallel_config__tensor_parallel_size=2), groups(full))]:
        assert _config.check(c, g, options) == 2
    chunked = FullAttentionSpec()
    chunked.attention_chunk_size = 8192
    for c, g, word in [
            (config(parallel_config__pipeline_parallel_size=2), groups(full), 'pipeline'),
            (config(parallel_config__decode_context_parallel_size=2), groups(full), 'context'),
            (config(speculative_config=1), groups(full), 'speculative'),
            (config(cache_config__enable_prefix_caching=False), groups(full), 'prefix caching'),
            (config(cache_config__calculate_kv_scales=True), groups(full), 'scales'),
            (config(kv_transfer_config__kv_role='kv_producer'), groups(full), 'kv_role'),
            (config(), groups(full, full), 'hybrid'), (config(), groups(mixed), 'MLA'),
            (config(), groups(MLAAttentionSpec()), 'MLAAttentionSpec'),
            (config(), groups(SlidingWindowSpec()), 'SlidingWindowSpec'),
            (config(), groups(chunked), 'chunked attention')]:
        with pytest.raises(ValueError, match=word):
            _config.check(c, g, options)
    with pytest.raises(ValueError, match='block size, 128'):
        _config.check(config(), groups(full), _config.Options.of({'uri': 'x', 'value_tokens': 200}))


def test_weights(tmp_path):
    def of(load_format='auto', **more):
        return _config.weights(types.SimpleNamespace(
            model=str(tmp_path), seed=7, hf_config=None, **more), load_format)

    at = tmp_path / 'model.safetensors'
    at.write_bytes(bytes(300000))
    (tmp_path / 'README.md').write_text('a')
    first = of()
    (tmp_path / 'README.md').write_text('b')
    assert of() == first
    times = os.stat(at)
    at.write_bytes(bytes(299999) + b'x')
    os.utime(at, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = of()
    assert second != first
    os.utime(at, ns=(1, 1))
    assert of() not in (first, second)
    assert of('dummy') == 'dummy:7'
    assert _config.weights(types.SimpleNamespace(model=str(at)), 'auto') == of()

    def hub(commit, revision):
        return _config.weights(types.SimpleNamespace(
            model='org/model', revision=revision, seed=0,
            hf_config=types.SimpleNamespace(_commit_hash=commit)), 'auto')

    assert hub('a' * 40, 'main') == 'a' * 40
    assert hub(None, 'b' * 40) == 'b' * 40
    for commit, revision in [(None, None), (None, 'main'), ('abc', None)]:
        with pytest.raises(ValueError, match='which weights'):
            hub(commit, revision)
    at.unlink()
    with pytest.raises(ValueError, match='which weights'):
        of(revision=None)


# -- the scheduler's half

class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def request(req='r', tokens=1100):
    return types.SimpleNamespace(
        request_id=req, num_tokens=tokens, num_prompt_tokens=tokens,
        block_hashes=[bytes([i]) for i in range(tokens // 128)], skip_reading_prefix_cache=False)


def blocks(*ids):
    return types.SimpleNamespace(get_block_ids=lambda: (list(ids),))


def output(new=(), cached=(), preempted=()):
    """new: (request, blocks, computed, scheduled); cached: (the same, is resumed)."""
    tokens = {r.request_id: n for r, _, _, n, *_ in [*new, *cached]}
    return types.SimpleNamespace(
        scheduled_new_reqs=[types.SimpleNamespace(
            req_id=r.request_id, block_ids=(ids,), num_computed_tokens=c)
            for r, ids, c, _ in new],
        scheduled_cached_reqs=types.SimpleNamespace(
            req_ids=[r.request_id for r, *_ in cached],
            resumed_req_ids={r.request_id for r, *_, resumed in cached if resumed},
            new_block_ids=[(ids,) if ids else None for _, ids, *_ in cached],
            num_computed_tokens=[c for _, _, c, *_ in cached]),
        num_scheduled_tokens=tokens, preempted_req_ids=set(preempted))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def scheduler(clock):
    return _scheduler.Scheduler(_config.Options.of({'uri': 'x'}), 2, 1, LOG, clock)


def found(s, values, req='r', ranks=1):
    s.update(_meta.Report(found={req: (values, ranks)}))


def test_load(scheduler):
    r = request()
    assert scheduler.matched(r, 0) == (None, False)
    look, = scheduler.build(output(), b'seed').looks
    assert look.hashes == [b'\1', b'\3', b'\5', b'\7']  # of the last block of each value
    assert scheduler.matched(r, 0) == (None, False)
    assert not scheduler.build(output(), b'seed').looks  # asked once
    found(scheduler, 3)
    assert scheduler.matched(r, 0) == (768, True) == scheduler.matched(r, 0)
    # Meanwhile the engine has 3 blocks of its own.
    assert scheduler.matched(r, 384) == (384, True)
    scheduler.allocated(r, blocks(*range(10, 19)), 384)
    step = scheduler.build(output(), b'seed')
    assert step.loads == [_meta.Load('r', 3, [13, 14, 15])]
    assert step.seed == b'seed'
    scheduler.allocated(r, blocks(*range(10, 19)), 0)  # when it is over, once more
    assert scheduler.matched(r, 768) == (0, False)
    step = scheduler.build(output(new=[(r, list(range(10, 19)), 768, 332)]), b'seed')
    assert step.saves == [_meta.Save('r', b'\7', [16, 17])]


def test_begins_where_the_engine_ends(scheduler):
    r = request()
    scheduler.matched(r, 640)
    look, = scheduler.build(output(), b'').looks
    assert look.hashes == [b'\5', b'\7']  # values 2 and 3
    found(scheduler, 2)
    assert scheduler.matched(r, 640) == (384, True)
    scheduler.allocated(r, blocks(*range(9)), 384)
    assert scheduler.build(output(), b'').loads == [_meta.Load('r', 1, [5, 6, 7])]


def test_what_the_engine_has_lost(scheduler):
    """Its own blocks before the look-up's first value are gone: nothing is promised."""
    r = request()
    scheduler.matched(r, 640)
    found(scheduler, 2)
    assert scheduler.matched(r, 256) == (0, False)
    assert scheduler.build(output(), b'').drops == ['r']


def test_too_short_or_not_wanted(scheduler):
    assert scheduler.matched(request(tokens=256), 0) == (0, False)  # its last token is computed
    r = request('s')
    r.skip_reading_prefix_cache = True
    assert scheduler.matched(r, 0) == (0, False)
    assert scheduler.matched(request('t'), 1024) == (0, False)
    assert not scheduler.build(output(), b'').looks


def test_nothing_found(scheduler):
    r = request()
    scheduler.matched(r, 0)
    found(scheduler, 0)
    assert scheduler.matched(r, 0) == (0, False)


def test_no_answer(scheduler, clock):
    """A worker that doesn't answer: the request is computed."""
    r = request()
    scheduler.matched(r, 0)
    scheduler.build(output(), b'')
    clock.now = 100.0
    assert scheduler.matched(r, 0) == (0, False)
    assert scheduler.build(output(), b'').drops == ['r']
    assert scheduler.counts() == {'lookups_late': 1} and scheduler.counts() == {}
    found(scheduler, 4)  # now it does
    assert scheduler.matched(r, 0) == (0, False)


def test_ranks():
    """The fewest values of any rank."""
    s = _scheduler.Scheduler(_config.Options.of({'uri': 'x'}), 2, 3, LOG)
    r = request()
    s.matched(r, 0)
    report = _meta.Report(found={'r': (4, 1)}, copied={'q': 1})
    report.add(_meta.Report(found={'r': (2, 1)}, copied={'q': 1, 'p': 1}))
    assert report.copied == {'q': 2, 'p': 1}
    s.update(report)
    assert s.matched(r, 0) == (None, False)
    found(s, 3)
    assert s.matched(r, 0) == (512, True)


def test_saves_over_chunks(scheduler):
    """As soon as a value is whole; generated tokens too, when their hash is known."""
    r = request(tokens=600)
    scheduler.matched(r, 0)
    found(scheduler, 0)
    step = scheduler.build(output(new=[(r, [1, 2], 0, 200)]), b'')
    assert not step.saves and step.prompt == 200
    step = scheduler.build(output(cached=[(r, [3], 200, 100, False)]), b'')
    assert step.saves == [_meta.Save('r', b'\1', [1, 2])]
    step = scheduler.build(output(cached=[(r, [4, 5], 300, 300, False)]), b'')
    assert step.saves == [_meta.Save('r', b'\3', [3, 4])]
    r.block_hashes += [b'x', b'y']
    r.num_tokens = 768
    step = scheduler.build(output(cached=[(r, [6], 767, 1, False)]), b'')
    assert step.saves == [_meta.Save('r', r.block_hashes[5], [5, 6])]
    assert step.prompt == 0


def test_blocks_stay_until_copied(scheduler):
    r = request(tokens=600)
    scheduler.matched(r, 0)
    scheduler.build(output(new=[(r, [1, 2, 3, 4, 5], 0, 600)]), b'')
    scheduler.update(_meta.Report(copied={'r': 1}))
    assert scheduler.finished(r)  # one of two is under way
    assert scheduler.build(output(), b'').held == ['r']
    assert not scheduler.finished(r)
    s = request('s', tokens=600)
    scheduler.matched(s, 0)
    scheduler.build(output(new=[(s, [1, 2, 3, 4, 5], 0, 600)]), b'')
    scheduler.update(_meta.Report(copied={'s': 2}))
    assert not scheduler.finished(s)


def test_preempted(scheduler):
    """Its blocks go with the step: the worker is told, and it begins anew with others."""
    r = request(tokens=600)
    scheduler.matched(r, 0)
    found(scheduler, 0)
    scheduler.build(output(new=[(r, [1, 2, 3], 0, 300)]), b'')
    assert scheduler.build(output(preempted=['r']), b'').cancels == ['r']
    assert scheduler.matched(r, 0) == (None, False)
    found(scheduler, 1)
    assert scheduler.matched(r, 0) == (256, True)
    scheduler.allocated(r, blocks(7, 8, 9), 256)
    step = scheduler.build(output(), b'')
    assert step.loads == [_meta.Load('r', 0, [7, 8])]
    step = scheduler.build(output(cached=[(r, [7, 8, 9, 10, 11], 256, 344, True)]), b'')
    assert step.saves == [_meta.Save('r', b'\3', [9, 10])]


def test_goes_while_it_is_looked_up(scheduler):
    r = request()
    scheduler.matched(r, 0)
    assert not scheduler.finished(r)
    step = scheduler.build(output(), b'')
    assert not step.looks and step.drops == ['r']  # it was never sent
    again = request()
    assert scheduler.matched(again, 0) == (None, False)


def test_reset(scheduler):
    r = request()
    scheduler.matched(r, 0)
    scheduler.build(output(), b'')
    found(scheduler, 3)
    assert scheduler.reset()
    assert scheduler.matched(r, 0) == (0, False)
    step = scheduler.build(output(new=[(r, list(range(9)), 0, 1100)]), b'')
    assert step.drops == ['r'] and len(step.epoch) == 16
    assert not step.saves  # computed with what was before
