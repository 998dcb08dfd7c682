# SPDX-License-Identifier: Apache-2.0
"""Nothing grows: many requests through a real vLLM with its KV cache in Peal, and descriptors,
memory, leases, threads, host buffers and blocks counted, in the engine and in the daemon.

usage: leak.py [REQUESTS [FOLDER]]      10,000 requests take 5 to 15 minutes on two cores

CI runs the short form, test_vllm.test_no_leak. 120 prompts come again and again, the daemon's
memory holds a fourth of them, and for each 50 requests one is given up besides. Exit status 0:
nothing grew. Wants PYTHONPATH and PEALD; `test/engine/run-leak` sets them:

    test/engine/run-leak [REQUESTS]
"""

import json
import os
import random
import signal
import socket
import sys
import tempfile

import rig
import tiny_llama
from rig import prompt

TOKENS = 300
BATCH = 10
PROMPTS = 120
GROWTH_KB = 48 << 10
"""Resident memory that may come between the first fifth and the end: allocators and their pools."""


def resident_kb(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        for line in f:
            if line.startswith('VmRSS:'):
                return int(line.split()[1])
    raise RuntimeError(f'{pid} has no VmRSS')


def shared_kb(pid):
    """Of it, what is files and memfds: the arena fills up, and that is no leak."""
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(('RssFile', 'RssShmem')))


def leases(folder):
    """Of all clients: values that are pinned for them."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(f'{folder}/rpc')
        s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "client.list"}\n')
        said = b''
        while not said.endswith(b'\n'):
            said += s.recv(65536)
    return sum(c['leases'] for c in json.loads(said)['result'])


def counted(engine, daemon):
    """What must be as it was: {what: number}. On a busy machine the link may be down for now."""
    engine.wait_for_daemon()
    pool = engine.core.scheduler.kv_cache_manager.block_pool
    w, pid = engine.worker, daemon.process.pid
    stats = w._link.client().stats()
    return {
        'descriptors of the engine': len(os.listdir('/proc/self/fd')),
        'descriptors of the daemon': len(os.listdir(f'/proc/{pid}/fd')),
        'threads of the engine': len(os.listdir('/proc/self/task')),
        'leases': leases(daemon.folder),
        'bytes in quarantine': stats.quarantined_bytes,
        'slots in use': w._slots.nr - w._slots.nr_free + w._out.nr - w._out.nr_free,
        'look-ups': len(w._looked) + len(w._pending) + len(w._held),
        'requests': len(engine.scheduler._requests),
        'blocks in use': pool.num_gpu_blocks - 1 - pool.get_num_free_blocks(),
    }


def memory(daemon):
    pid = daemon.process.pid
    return {'memory of the engine, KiB': resident_kb('self') - shared_kb('self'),
            'memory of the daemon, KiB': resident_kb(pid) - shared_kb(pid)}


def abort_some(engine, seed):
    """A request that its user gives up; whether it was waiting for its load."""
    from vllm import SamplingParams
    core, name = engine.llm.llm_engine, f'given-up-{seed}'
    core.add_request(name, {'prompt_token_ids': prompt(seed, TOKENS)},
                     SamplingParams(max_tokens=4, temperature=0, detokenize=False))
    core.step()
    state, = (r.state.name for req, r in engine.scheduler._requests.items() if req.startswith(name))
    core.abort_request([name])
    return state in ('LOOKING', 'READY')


def run(engine, requests, first):
    """`requests` of them; the engine's own prefix cache is emptied on the way, before a request is
    given up: it would need no load else. How many were given up while they waited for one."""
    pick, waiting = random.Random(first), 0
    for i in range(first, first + requests, BATCH):
        seeds = [100 + pick.randrange(PROMPTS) for _ in range(BATCH)]
        engine.run(*(prompt(seed, TOKENS) for seed in seeds), tokens=1)
        engine.forget()
        if i % (5 * BATCH) == 0:
            waiting += abort_some(engine, seeds[0])
    return waiting


def grown(before, after):
    """What is more than it was. A pool's thread or descriptor may still have been made."""
    few = {'descriptors of the engine': 2, 'descriptors of the daemon': 2,
           'threads of the engine': 4}
    return {what: (before[what], nr) for what, nr in after.items()
            if nr > before[what] + few.get(what, 0)}


def main(requests, folder):
    tiny_llama.make(f'{folder}/model', seed=1)
    with rig.Daemon(f'{folder}/d', f'dram 24M | ssd {folder}/ssd 256M') as daemon:
        engine = rig.Engine(f'{folder}/model', daemon.start().uri,
                            {'load_bytes': '64M', 'save_bytes': '32M'}, num_gpu_blocks_override=33)
        done = requests // 5
        given_up = run(engine, done, 0)
        before, began = counted(engine, daemon), memory(daemon)
        while done < requests:
            step = min(requests // 5, requests - done)
            given_up += run(engine, step, done)
            done += step
            print(f'{done} requests: {json.dumps({**counted(engine, daemon), **memory(daemon)})}',
                  flush=True)
        after = counted(engine, daemon)
        more = grown(before, after)
        more.update({what: (began[what], kb) for what, kb in memory(daemon).items()
                     if kb > began[what] + GROWTH_KB})
        stats = engine.worker._link.client().stats()
        print(f'{stats.hits} hits, {stats.bytes_out >> 20} MiB loaded, {stats.bytes_in >> 20} MiB '
              f'saved, {stats.timeouts} timeouts, {given_up} given up while they waited')
        engine.close()
    print('grown:', more or 'nothing')
    return 1 if more or not given_up else 0


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    NR = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    if len(sys.argv) > 2:
        os.makedirs(sys.argv[2], exist_ok=True)
        sys.exit(main(NR, sys.argv[2]))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(NR, made))
