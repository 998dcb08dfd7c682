# SPDX-License-Identifier: Apache-2.0
"""What these tests share: a daemon that they may hurt, and a real vLLM in this process.

The engine runs in the process of the tests (no multiprocessing), so that they can look into the
connector's halves and stand in between.
"""

import gc
import os
import re
import signal
import subprocess
import time

os.environ.update(HF_HUB_OFFLINE='1', VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_NO_USAGE_STATS='1',
                  VLLM_CPU_KVCACHE_SPACE='1', TOKENIZERS_PARALLELISM='false',
                  # One thread: threads that spin for each other crawl where others have work.
                  VLLM_CPU_OMP_THREADS_BIND='nobind', OMP_NUM_THREADS='1')
os.environ.setdefault('VLLM_LOGGING_LEVEL', 'WARNING')

VALUE = 256
BLOCK = 128


class Daemon:
    """peald in a folder of its own; uri is where."""

    def __init__(self, folder, tiers):
        self.folder, self.tiers, self.process = str(folder), tiers, None
        self.more = []
        os.makedirs(self.folder, exist_ok=True)
        self.uri = f'vfu:{self.folder}/cntrl'
        self.log = f'{self.folder}/log'

    def start(self):
        mark = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [os.environ['PEALD'], '--dir', self.folder, '--tiers', self.tiers, *self.more],
                stderr=log, stdout=subprocess.DEVNULL)
        for _ in range(6000):
            with open(self.log, 'rb') as f:
                f.seek(mark)
                if b'listening on' in f.read():
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        with open(self.log, encoding='utf-8', errors='replace') as f:
            raise RuntimeError(f'peald did not start: {f.read()[-2000:]}')

    def end(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def stop(self):
        """All its threads stand: a signal only begins that, and who runs answers meanwhile."""
        pid = self.process.pid
        self.process.send_signal(signal.SIGSTOP)
        for task in os.listdir(f'/proc/{pid}/task'):
            for _ in range(6000):
                with open(f'/proc/{pid}/task/{task}/stat', encoding='utf-8') as f:
                    if f.read().rpartition(')')[2].split()[0] == 'T':
                        break
                time.sleep(0.01)
            else:
                raise RuntimeError('peald does not stop')

    def go_on(self):
        """After a stop()."""
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGKILL)

    def flip(self, value, at):
        """Turns over one bit of a value in the daemon's memory, byte `at` of it; places found."""
        pid, nr = self.process.pid, 0
        with open(f'/proc/{pid}/maps', encoding='ascii') as maps, \
                open(f'/proc/{pid}/mem', 'r+b', buffering=0) as mem:
            for line in maps:
                m = re.match(r'(\w+)-(\w+) rw-s .*memfd', line)
                if not m:
                    continue
                start, end = (int(x, 16) for x in m.groups())
                data = read_mapping(mem, start, end)
                found = data.find(value[:4096])
                while found >= 0:
                    mem.seek(start + found + at)
                    byte = data[found + at]
                    mem.write(bytes([byte ^ 1]))
                    nr += 1
                    found = data.find(value[:4096], found + 1)
        return nr


def read_mapping(mem, start, end):
    """Its bytes; zeros where there are none, as behind the end of a file."""
    data = bytearray(end - start)
    for at in range(start, end, 1 << 16):
        mem.seek(at)
        try:
            piece = mem.read(min(1 << 16, end - at))
        except OSError:
            continue
        data[at - start : at - start + len(piece)] = piece
    return data


def prompt(seed, tokens):
    """No two begin alike."""
    first = seed * 104729 + tokens * 31
    return [(i * 7919 + first + i * i % 31) % 997 for i in range(tokens)]


class Engine:
    """vLLM with a PealConnector, or without one (uri None)."""

    def __init__(self, model, uri, extra=None, **more):
        from vllm import LLM
        from vllm.config import KVTransferConfig
        transfer = None if uri is None else KVTransferConfig(
            kv_connector='PealConnector', kv_connector_module_path='pealkv.vllm',
            kv_role='kv_both',
            kv_connector_extra_config={'uri': uri, 'load': 'always', **(extra or {})})
        # float32: how a prompt is cut into chunks must not decide between two tokens.
        options = {'max_model_len': 3072, 'max_num_batched_tokens': 1024, 'dtype': 'float32',
                   'enforce_eager': True, 'skip_tokenizer_init': True, 'seed': 0, **more}
        self.llm = LLM(str(model), kv_transfer_config=transfer, **options)
        self.core = self.llm.llm_engine.engine_core.engine_core
        if uri is not None:
            from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group
            self.scheduler = self.core.scheduler.connector._scheduler
            # With several ranks each has a process of its own.
            self.worker = get_kv_transfer_group()._worker if has_kv_transfer_group() else None

    def run(self, *prompts, tokens=8, salt=None, lora=None):
        """For each (tokens answered, prompt tokens that came out of a cache)."""
        from vllm import SamplingParams
        sampling = SamplingParams(max_tokens=tokens, temperature=0, detokenize=False)
        asked = [{'prompt_token_ids': p, **({'cache_salt': salt} if salt else {})}
                 for p in prompts]
        done = self.llm.generate(asked, sampling, use_tqdm=False, lora_request=lora)
        return [(list(o.outputs[0].token_ids), o.num_cached_tokens) for o in done]

    def forget(self):
        """What was saved is in the daemon, and vLLM's own prefix cache is empty."""
        self.settle()
        assert self.llm.reset_prefix_cache()

    def settle(self):
        w = self.worker
        for _ in range(6000):
            if self.core.scheduler.has_requests():
                self.llm.llm_engine.step()  # blocks that were held until they were copied
            elif not w._pending and w._out.nr_free == w._out.nr:
                return
            time.sleep(0.005)
        raise RuntimeError('saves that never end')

    def wait_for_daemon(self):
        for _ in range(3000):
            if self.worker._link.is_up:
                return
            time.sleep(0.01)
        raise RuntimeError('the link never came back')

    def counts(self):
        """Of the connector since the last call, what the engine has not taken."""
        return self.worker.counts()

    def close(self):
        """All of it is gone, so that the process can have another."""
        from vllm.distributed import cleanup_dist_env_and_memory
        self.core.shutdown()
        self.llm = self.core = self.scheduler = self.worker = None
        gc.collect()
        cleanup_dist_env_and_memory()


def by_hand(tokens):
    """Prompt tokens that whole values hold, of which the last token is never one."""
    return (tokens - 1) // VALUE * VALUE
