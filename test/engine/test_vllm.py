# SPDX-License-Identifier: Apache-2.0
"""Real vLLM on the CPU with its KV cache in a real peald: the tokens are always those of an engine
without it, whatever happens to the daemon, and num_cached_tokens is what one computes by hand.

The first test proves that these can fail: one flipped bit that reaches the engine changes tokens.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import leak
import pealkv
import rig
import tiny_llama
from rig import by_hand, prompt

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT, LONG = 1100, 2600  # LONG is more than one chunk of a prefill


@pytest.fixture(scope='session')
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp('model')
    tiny_llama.make(folder, seed=1)
    return folder


@pytest.fixture(scope='session')
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp('peald')
    d = rig.Daemon(folder / 'run', f'dram 128M | ssd {folder}/ssd 512M').start()
    yield d
    d.end(signal.SIGKILL)


@pytest.fixture(scope='session')
def engine(model, daemon):
    e = rig.Engine(model, daemon.uri, {'timeout_s': 2, 'load_bytes': '64M', 'save_bytes': '32M'},
                   num_gpu_blocks_override=33)
    yield e
    e.close()


@pytest.fixture(scope='session')
def cold(engine):
    """Tokens of a prompt as the engine computes them alone, by (seed, tokens)."""
    known = {}

    def of(seed, tokens):
        if (seed, tokens) not in known:
            (answer, cached), = engine.run(prompt(seed, tokens))
            assert cached == 0
            known[seed, tokens] = answer
            engine.forget()
        return known[seed, tokens]

    return of


def check(engine, cold, seed, tokens, cached=None):
    """The same tokens, and that many out of the cache (None: any number)."""
    answer, got = cold(seed, tokens), engine.run(prompt(seed, tokens))[0]
    engine.forget()
    assert got[0] == answer
    assert cached is None or got[1] == cached
    return got[1]


def test_edge(engine, cold, monkeypatch):
    """The signs of one value turned over, behind the check: other tokens. Signs, since NaNs would
    stay in blocks, where vLLM's attention on the CPU trips over them later."""
    answer = cold(1, SHORT)
    scatter, flipped = engine.worker._load_copier.scatter, []

    def flip(value, *args):
        if not flipped:
            value[3::4] ^= 0x80
        flipped.append(1)
        scatter(value, *args)

    monkeypatch.setattr(engine.worker._load_copier, 'scatter', flip)
    (wrong, cached), = engine.run(prompt(1, SHORT))
    engine.forget()
    assert cached == by_hand(SHORT)
    assert wrong != answer


@pytest.mark.parametrize('tokens', [SHORT, LONG, 257, 256, 255, 2 * 256 + 128])
def test_warm(engine, cold, tokens):
    """Tokens as computed, and as many out of the store as whole values hold."""
    cold(1, tokens)
    check(engine, cold, 1, tokens, by_hand(tokens))


def test_answers_are_kept(engine, cold):
    """What is generated is saved too: the next turn of a conversation finds it."""
    first = prompt(2, 480)
    (answer, _), = engine.run(first, tokens=40)
    engine.forget()
    turn = first + answer + prompt(3, 100)
    (warm, cached), = engine.run(turn)
    assert cached == 2 * 256  # 519 tokens have been computed
    engine.llm.reset_prefix_cache()
    engine.worker._link._is_up = False
    (again, cached), = engine.run(turn)
    engine.worker._link._is_up = True
    engine.forget()
    assert (again, cached) == (warm, 0)


def test_beside_the_engines_own(engine, cold):
    """A part is in vLLM's own cache: only the rest is loaded."""
    answer = cold(1, SHORT)
    engine.run(prompt(1, SHORT)[:400])  # 3 blocks, 1 value and a half
    engine.counts()
    (got, cached), = engine.run(prompt(1, SHORT))
    engine.forget()
    assert (got, cached) == (answer, by_hand(SHORT))


def test_many_at_once(engine, cold):
    wanted = [(s, n) for s in (1, 4, 5) for n in (SHORT, 600)]
    answers = [cold(*w) for w in wanted]
    got = engine.run(*(prompt(*w) for w in wanted))
    engine.forget()
    assert [g[0] for g in got] == answers
    assert sum(g[1] for g in got) >= 0.9 * sum(by_hand(n) for _, n in wanted)


def test_salt(engine, cold):
    """Another salt: never these values; the same one: those."""
    cold(1, SHORT)
    for salt, cached in (('tenant a', 0), ('tenant b', 0), ('tenant a', by_hand(SHORT))):
        (answer, got), = engine.run(prompt(1, SHORT), salt=salt)
        engine.forget()
        assert (answer, got) == (cold(1, SHORT), cached)


def test_preemption(engine, cold):
    """More than the engine has room for, while it saves and loads."""
    wanted = [(20 + s, 760) for s in range(5)]
    answers = [engine.run(prompt(*w), tokens=40)[0][0] for w in wanted]
    for _ in range(2):
        engine.forget()
        got = engine.run(*(prompt(*w) for w in wanted), tokens=40)
        assert [g[0] for g in got] == answers
    engine.forget()


def test_abort(engine, cold):
    """A request that goes while it is looked up, or loaded, leaves nothing behind."""
    from vllm import SamplingParams
    cold(1, SHORT)
    core = engine.llm.llm_engine
    for steps in range(5):
        core.add_request(f'gone-{steps}', {'prompt_token_ids': prompt(1, SHORT)},
                         SamplingParams(max_tokens=8, detokenize=False))
        for _ in range(steps):
            core.step()
        core.abort_request([f'gone-{steps}'])
        check(engine, cold, 1, SHORT, by_hand(SHORT))
    is_clean(engine)


def is_clean(engine):
    w = engine.worker
    assert (w._slots.nr_free, w._out.nr_free) == (w._slots.nr, w._out.nr)
    assert not w._looked and not w._pending and not w._held
    assert not engine.scheduler._requests


def test_flipped_in_the_store(engine, daemon, cold, monkeypatch):
    """A bit turned over in the daemon's memory: a miss from there on, never these bytes."""
    cold(6, SHORT)
    names, get = [], engine.worker._get

    def note(client, name, *args):
        names.append(name)
        return get(client, name, *args)

    monkeypatch.setattr(engine.worker, '_get', note)
    check(engine, cold, 6, SHORT, by_hand(SHORT))
    monkeypatch.undo()
    keys = sorted(set(names), key=names.index)
    assert len(keys) == SHORT // 256
    with pealkv.open(daemon.uri) as client:
        ordered = [n for n in keys if client.exist(n[0])]
        value = client.get(ordered[2][0])
    assert daemon.flip(value, len(value) // 2) >= 1
    assert check(engine, cold, 6, SHORT) < by_hand(SHORT)
    check(engine, cold, 6, SHORT, by_hand(SHORT))  # computed, and saved again


def test_wrong_tag(engine, daemon, cold, monkeypatch):
    """Bytes that were stored under another name: a miss, and counted."""
    cold(7, SHORT)
    name = engine.worker._space.name
    monkeypatch.setattr(engine.worker, '_space', _Renamed(engine.worker._space, name))
    before = engine.worker._link.client().stats().bad_tags
    check(engine, cold, 7, SHORT, 0)
    assert engine.worker._link.client().stats().bad_tags > before


class _Renamed:
    """The same keys, other tags."""

    def __init__(self, space, name):
        self.seed, self._name = space.seed, name

    def name(self, engine_key):
        key, tag = self._name(engine_key)
        return key, bytes(len(tag) - 1) + b'\1'


def test_reset(engine, cold):
    cold(8, SHORT)
    assert engine.core.scheduler.reset_prefix_cache(reset_connector=True)
    check(engine, cold, 8, SHORT, 0)
    check(engine, cold, 8, SHORT, by_hand(SHORT))
    engine.scheduler._epoch = b''
    check(engine, cold, 8, SHORT, by_hand(SHORT))


def test_daemon_restarted(engine, daemon, cold):
    """The SSD has it all."""
    cold(1, LONG)
    daemon.end()
    check(engine, cold, 1, LONG, 0)
    daemon.start()
    engine.wait_for_daemon()
    check(engine, cold, 1, LONG, by_hand(LONG))


def killer(worker, name, daemon, monkeypatch):
    """The daemon dies in the third call of that method."""
    real, calls, lock = getattr(worker, name), [], threading.Lock()

    def call(*args):
        with lock:
            calls.append(1)
            if len(calls) == 3:
                daemon.end(signal.SIGKILL)
        return real(*args)

    monkeypatch.setattr(worker, name, call)
    return calls


@pytest.mark.parametrize('when', ['_get', '_put'])
def test_killed(engine, daemon, cold, monkeypatch, when):
    """kill -9 during a load, and during a save."""
    seed = 1 if when == '_get' else 9
    if when == '_get':
        cold(seed, LONG)
    calls = killer(engine.worker, when, daemon, monkeypatch)
    (answer, cached), = engine.run(prompt(seed, LONG))
    engine.forget()
    monkeypatch.undo()
    assert len(calls) >= 3 and cached <= 2 * 256
    daemon.start()
    engine.wait_for_daemon()
    (again, _), = engine.run(prompt(seed, LONG))
    engine.forget()
    assert answer == again
    if when == '_get':
        assert answer == cold(seed, LONG)
    check(engine, cold, seed + 40, LONG)
    check(engine, cold, seed + 40, LONG, by_hand(LONG))


def test_stopped(engine, daemon, cold):
    """SIGSTOP for 10 s: requests are computed meanwhile, and what comes late hits nobody."""
    for seed in (1, 11):
        check(engine, cold, seed, SHORT)  # whatever the tests before have done, they are stored now
        check(engine, cold, seed, SHORT, by_hand(SHORT))
    began = time.monotonic()
    daemon.stop()
    try:
        check(engine, cold, 1, SHORT, 0)
        check(engine, cold, 11, SHORT, 0)
        time.sleep(max(0, began + 10 - time.monotonic()))
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    engine.wait_for_daemon()
    check(engine, cold, 11, SHORT, by_hand(SHORT))
    check(engine, cold, 1, SHORT, by_hand(SHORT))


def test_no_leak(engine, daemon):
    """200 requests, some given up on the way; leak.py does 10,000."""
    assert leak.run(engine, 100, 0) > 0
    before = leak.counted(engine, daemon)
    assert leak.run(engine, 200, 100) > 0
    assert not leak.grown(before, leak.counted(engine, daemon))
    is_clean(engine)


def test_other_processes(engine, daemon, cold, model, tmp_path):
    """Another engine on the same daemon, at once: the same tokens out of what this one saved. Then
    a second model with the same prompts: nothing. Then a store that is too small."""
    wanted = [(1, SHORT), (1, LONG), (4, SHORT)]
    answers = [cold(*w) for w in wanted]
    other = tmp_path / 'other'
    tiny_llama.make(other, seed=2)
    child = subprocess.Popen(
        [sys.executable, os.path.join(HERE, 'second.py'), str(model), str(other), daemon.uri,
         str(tmp_path / 'small'), str(tmp_path / 'said')])
    until = time.monotonic() + 300
    while child.poll() is None:
        assert time.monotonic() < until, 'the other process never ends'
        check(engine, cold, 1, LONG, by_hand(LONG))
        check(engine, cold, 4, SHORT, by_hand(SHORT))
    assert child.returncode == 0
    said = json.loads((tmp_path / 'said').read_text())
    assert [s['answer'] for s in said['same']] == answers
    assert [s['cached'] for s in said['same']] == [by_hand(n) for _, n in wanted]
    assert [s['cached'] for s in said['other']] == [0, 0, 0]
    assert [s['answer'] for s in said['other']] != answers
    assert said['small']['answers'] == said['small']['without']
    assert said['small']['evicted'] > 0
