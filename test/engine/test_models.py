# SPDX-License-Identifier: Apache-2.0
"""Models and ways to run them other than test_vllm's, each with a small one of its kind: the tokens
are those that were computed, out of the store as many as one computes by hand.
"""

import contextlib
import os
import shutil
import time

import pytest

import pealkv
import rig
import tiny_llama
import tiny_models
from rig import by_hand, prompt

SHORT, LONG = 1100, 2600


@pytest.fixture(scope='module')
def daemon(tmp_path_factory):
    with rig.Daemon(tmp_path_factory.mktemp('peald') / 'run', 'dram 512M').start() as d:
        yield d


def stored(uri, wanted):
    """Values in the store, once there are as many."""
    with pealkv.open(uri) as client:
        until = time.monotonic() + 60
        while (nr := sum(1 for _ in client.list())) < wanted:
            assert time.monotonic() < until, f'{nr} values were saved, expected {wanted}'
            time.sleep(0.05)
    return nr


def same_twice(engine, daemon, ranks=1, **how):
    """What the engine computes is what it finds then, in a short, a longer and a cut prompt."""
    prompts = [prompt(1, n) for n in (257, SHORT, LONG)]
    wanted = sum(by_hand(len(p)) // rig.VALUE for p in prompts) * ranks
    before = stored(daemon.uri, 0)
    answers = [engine.run(p, **how)[0] for p in prompts]
    assert [cached for _, cached in answers] == [0, 0, 0]
    assert stored(daemon.uri, before + wanted) == before + wanted
    assert engine.llm.reset_prefix_cache()
    again = [engine.run(p, **how)[0] for p in prompts]
    assert engine.llm.reset_prefix_cache()
    assert again == [(answer, by_hand(len(p))) for (answer, _), p in zip(answers, prompts)]
    assert stored(daemon.uri, 0) == before + wanted
    return [answer for answer, _ in answers]


@contextlib.contextmanager
def engine_of(folder, daemon, **how):
    # Ranks that wait for each other spin: on two cores the daemon may be late by seconds, and what
    # a deadline does isn't asked here.
    e = rig.Engine(folder, daemon.uri, {'timeout_s': 30},
                   num_gpu_blocks_override=how.pop('blocks', 33), **how)
    try:
        yield e
    finally:
        e.close()


def test_sliding_windows(tmp_path, daemon):
    """Some layers see 128 tokens, others all of them."""
    tiny_models.gemma(tmp_path / 'model', seed=1)
    with engine_of(tmp_path / 'model', daemon) as e:
        same_twice(e, daemon)


def test_two_ranks(tmp_path, daemon):
    """Each keeps its part; what one of them hasn't, none of them loads."""
    tiny_llama.make(tmp_path / 'model', seed=1)
    with engine_of(tmp_path / 'model', daemon, tensor_parallel_size=2) as e:
        answers = same_twice(e, daemon, ranks=2)
        with pealkv.open(daemon.uri) as client:
            for key in list(client.list())[::3]:
                client.delete(key)
        got = [e.run(prompt(1, n))[0] for n in (257, SHORT, LONG)]
        assert [answer for answer, _ in got] == answers
        assert all(cached <= by_hand(n) for (_, cached), n in zip(got, (257, SHORT, LONG)))
        assert sum(cached for _, cached in got) < sum(map(by_hand, (257, SHORT, LONG)))


def test_adapters(tmp_path, daemon):
    """Values are an adapter's own; one whose files change is computed and not kept."""
    from vllm.lora.request import LoRARequest
    tiny_llama.make(tmp_path / 'model', seed=3)
    for seed, name in enumerate(('one', 'two')):
        tiny_models.adapter(tmp_path / name, seed)
    one, two = (LoRARequest(n, i, str(tmp_path / n)) for i, n in enumerate(('one', 'two'), 1))
    time.sleep(1.1)  # a file must be seen to be older than the engine
    with engine_of(tmp_path / 'model', daemon, enable_lora=True, max_lora_rank=8) as e:
        answers = [same_twice(e, daemon, lora=lora) for lora in (None, one, two)]
        assert answers[0] != answers[1] != answers[2] != answers[0]
        before = stored(daemon.uri, 0)
        os.utime(tmp_path / 'one' / 'adapter_model.safetensors')
        for p in (prompt(1, SHORT), prompt(9, SHORT)):
            assert e.run(p, lora=one)[0][1] == 0
            assert e.llm.reset_prefix_cache()
        assert e.run(prompt(1, SHORT), lora=two)[0][1] == by_hand(SHORT)
        assert stored(daemon.uri, 0) == before
    # The next engine takes the folder as it is; another one's weights under that name are others.
    shutil.rmtree(tmp_path / 'one')
    tiny_models.adapter(tmp_path / 'one', 7)
    time.sleep(1.1)
    with engine_of(tmp_path / 'model', daemon, enable_lora=True, max_lora_rank=8) as e:
        assert e.run(prompt(1, SHORT), lora=one)[0][1] == 0
        assert e.run(prompt(1, SHORT), lora=two)[0][1] == by_hand(SHORT)
