# SPDX-License-Identifier: Apache-2.0
"""A chat of several people with a real vLLM, without Peal and with it, the engine restarted half
way: what `script/demo --engine` shows. Exit status 0 only when all tokens were the same.

usage: chat.py FOLDER [PEOPLE [TURNS]]

People share a long beginning and take turns; the engine's own cache is too small for all of them,
so that without Peal each turn computes the whole conversation again.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import rig
import tiny_llama
from rig import VALUE, prompt

SHARED, SAYS, ANSWERS = 1500, 250, 24


def talk(engine, state, turns):
    """Each turn of each person: prompt tokens, of them out of a cache, seconds to the first token,
    what was answered. The conversations go on in `state`."""
    from vllm import SamplingParams
    sampling = SamplingParams(max_tokens=ANSWERS, temperature=0, detokenize=False)
    seen = []
    for turn in turns:
        for person, words in enumerate(state):
            words += prompt(1000 * turn + person, SAYS)
            o, = engine.llm.generate([{'prompt_token_ids': words}], sampling, use_tqdm=False)
            answer = list(o.outputs[0].token_ids)
            seen.append([len(words), o.num_cached_tokens or 0, o.metrics.first_token_latency,
                         answer, turn])
            words += answer
    return seen


def child(how):
    """One engine's life: `how` is a dict as main() makes it; its answer goes where it says."""
    engine = rig.Engine(
        how['model'], how['uri'] or None, {'load': 'auto'}, num_gpu_blocks_override=27,
        max_model_len=3328, max_num_batched_tokens=2048, disable_log_stats=False)
    talk(engine, [prompt(7, 1100)], [99])  # the first steps of a process are slow
    began = time.monotonic()
    seen = talk(engine, how['state'], range(*how['turns']))
    took = time.monotonic() - began
    if how['uri']:
        engine.settle()
    engine.close()
    with open(how['out'], 'w', encoding='ascii') as f:
        json.dump({'seen': seen, 'state': how['state'], 'took': took}, f)


def run(folder, name, uri, state, turns):
    how = {'model': f'{folder}/model', 'uri': uri, 'state': state, 'turns': turns,
           'out': f'{folder}/{name}.json'}
    print(f'  running    {name}', flush=True)
    with open(f'{folder}/{name}.log', 'wb') as log:
        done = subprocess.run([sys.executable, __file__, '--child', json.dumps(how)], stdout=log,
                              stderr=log, check=False)
    if done.returncode:
        with open(f'{folder}/{name}.log', encoding='utf-8', errors='replace') as f:
            sys.exit(f'demo: vLLM failed\n{f.read()[-3000:]}')
    with open(how['out'], encoding='ascii') as f:
        return json.load(f)


def line(what, seen):
    ms = sorted(1e3 * s[2] for s in seen)
    p90 = ms[min(len(ms) - 1, round(0.9 * len(ms)))]
    cached = sum(s[1] for s in seen)
    print(f'  {what:<24}{len(seen):>6}{statistics.median(ms):>10.0f}{p90:>10.0f}'
          f'{cached:>12,}{sum(s[0] for s in seen):>12,}')


def main(folder, people=5, turns=6):
    tiny_llama.make(f'{folder}/model', 1, 8, 512, 0.08)
    half = turns // 2
    start = [prompt(5, SHARED) for _ in range(people)]
    print(f'  chat       {people} people, {turns} turns, {SHARED} tokens shared, {SAYS} a turn\n'
          '  model      8 layers of 512, random weights, float32, on one thread of the CPU')
    uri = f'spawn:{folder}/peal?dram=2G&linger=60'
    without = run(folder, 'without Peal', '', start, (0, turns))
    first = run(folder, 'with Peal', uri, start, (0, half))
    second = run(folder, 'with Peal, restarted', uri, first['state'], (half, turns))
    seen = first['seen'] + second['seen']
    # What a turn shares with the one before it, in whole values, but for its last token.
    possible = sum(min(SHARED if s[4] == 0 else s[0] - SAYS - 1, s[0] - 1) // VALUE * VALUE
                   for s in seen[1:])
    back = sum(s[1] for s in seen)
    is_same = [s[3] for s in without['seen']] == [s[3] for s in seen]
    print(f'\n  {"TTFT, ms":<24}{"turns":>6}{"p50":>10}{"p90":>10}{"cached":>12}{"tokens":>12}')
    line('cold (without Peal)', [s for s in without['seen'] if s[4] > 0])
    line('warm', [s for s in first['seen'] if s[4] > 0])
    line('after the restart', second['seen'])
    print(f'\n  tokens brought back: {back:,} of {possible:,} possible '
          f'({100 * back / possible:.1f} %)')
    print(f'  identical output tokens: {"yes" if is_same else "NO"}')
    return 0 if is_same else 1


if __name__ == '__main__':
    if sys.argv[1] == '--child':
        child(json.loads(sys.argv[2]))
    else:
        os.makedirs(sys.argv[1], exist_ok=True)
        sys.exit(main(sys.argv[1], *(int(x) for x in sys.argv[2:4])))
