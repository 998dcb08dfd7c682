# SPDX-License-Identifier: Apache-2.0
"""vLLM's own offloading with Peal behind its host memory: a secondary tier.

vLLM keeps blocks in host memory (the primary tier), writes them through to its secondary tiers, and
asks those for what it has no longer. All of this class is called by the scheduler and returns at
once; threads of a Mover do the rest. A look-up says RETRY until the daemon has answered, MISS when
it doesn't in time; what is found is asked to be brought into the daemon's memory at once, while
vLLM prepares its load. A load has a result for each block, and what couldn't be loaded is a MISS
from then on. Stores that would wait too long, or are too many, are dropped. No row of the primary
tier is touched after its job's end.

vLLM empties its caches when it gets other weights, and also when it sleeps or pauses, and a tier
isn't told which: what was stored before is named by another salt than what is asked for after.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import queue
import threading
import time
import types
from collections.abc import Callable, Iterable
from typing import Any, Optional

from vllm.logger import init_logger
from vllm.v1.kv_offload import base as offload
from vllm.v1.kv_offload.tiering import base as tiering

import pealkv
from pealkv import _mover, keys
from .._link import Down, Link
from .._mover import Mover, Transfer
from . import _config

logger = init_logger(__name__)

MAX_WAITING = 4096
"""Parts of jobs that may wait for a thread, of loads and of stores each."""

_RESULT_FIELDS = {f.name for f in dataclasses.fields(tiering.JobResult)}


@dataclasses.dataclass(eq=False)
class _Asked:
    """A look-up; the scheduler's thread owns it. The answer to an older one of the same key finds
    its own, which nobody looks at any more."""

    found: Optional[bool] = None
    until: float = 0.0
    """When the answer is "no" for want of one; 0: the question isn't on its way yet."""
    reqs: set[str] = dataclasses.field(default_factory=set)


class PealTier(tiering.SecondaryTierManager):  # type: ignore[misc]
    """Of TieringOffloadingSpec, by module_path; beside `type` and `module_path`:

    Args:
        uri: of pealkv.open().
        revision: of the weights. Needed unless the model is a folder or a file of this machine.
        salt: a tenant's: values of another salt are never met.
        timeout_s: of each call of the daemon. A job has a second more for each 100 MB.
        save_bytes: of stores that wait or are under way, as in 1G; what comes beyond is dropped.
        threads: that move values, 1 to 128.
        keep_on_reset: what was stored before vLLM emptied its caches is met again. Only where an
            engine's weights are never changed while it runs.

    Raises:
        ValueError: an option, or what this tier isn't for, by name.
    """

    medium = offload.Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        *,
        uri: str = "",
        revision: str = "",
        salt: str = "",
        timeout_s: float = 2.0,
        save_bytes: Any = "1G",
        threads: int = 4,
        keep_on_reset: bool = False,
        **other: Any,
    ) -> None:
        more = {}
        if "backpressure_detector" in inspect.signature(super().__init__).parameters:
            more["backpressure_detector"] = backpressure_detector
        super().__init__(offloading_spec, primary_kv_view, tier_type, **more)
        if other:
            raise ValueError(f"PealTier: {sorted(other)} isn't known")
        if not uri:
            raise ValueError("PealTier: uri is missing, expected where the daemon is, as in "
                             "spawn:~/.cache/pealkv?dram=8G")
        texts = {"uri": uri, "revision": revision, "salt": salt}
        _mover.check_options("PealTier", texts, timeout_s, threads)
        if not isinstance(keep_on_reset, bool):
            raise ValueError(f"PealTier: keep_on_reset is {keep_on_reset!r}, expected a bool")
        self._timeout, self._max_bytes = float(timeout_s), _config.size(save_bytes)
        self._row_bytes: int = primary_kv_view.strides[0]  # type: ignore[index]
        self._space = space(offloading_spec, self._row_bytes, revision, salt)
        self._keeps, self._salt = keep_on_reset, salt.encode()
        self._asked: dict[bytes, _Asked] = {}
        self._new: list[tuple[bytes, _Asked]] = []
        self._of_req: dict[str, list[bytes]] = collections.defaultdict(list)
        self._answers: queue.SimpleQueue[tuple[list[_Asked], list[bool]]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, Transfer]] = queue.SimpleQueue()
        self._lock = threading.Condition(threading.Lock())
        self._nr_jobs = 0
        self._saving_bytes = 0
        self._counts: dict[str, int] = collections.defaultdict(int)
        self._link = Link(uri, self._timeout, logger, threads)
        self._mover = Mover(self._link, self._space, threads, MAX_WAITING, logger)
        self._rows = primary_kv_view.cast("B")
        try:
            self._check_room()
        except ValueError:
            self.shutdown()
            raise

    def _check_room(self) -> None:
        try:
            most = self._link.client().info().value_max
        except (Down, pealkv.PealError):
            return
        if self._row_bytes > most:
            raise ValueError(
                f"PealTier: a chunk has {self._row_bytes} bytes, the daemon takes {most}; expected "
                "a smaller block_size in kv_connector_extra_config"
            )
        logger.info("Peal: chunks of %d bytes to %s", self._row_bytes, self._link.uri)

    # -- look-ups

    def lookup(self, key: Any, req_context: Any) -> Any:
        """HIT, MISS, or RETRY while the daemon is being asked."""
        self._take_answers()
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked()
            self._new.append((key, asked))
        if req_context.req_id not in asked.reqs:
            asked.reqs.add(req_context.req_id)
            self._of_req[req_context.req_id].append(key)
        if asked.found is None and asked.until and time.monotonic() > asked.until:
            asked.found = False
            self._count(lookups_late=1)
        if asked.found is None:
            return offload.LookupResult.RETRY
        return offload.LookupResult.HIT if asked.found else offload.LookupResult.MISS

    def on_schedule_end(self, context: Any) -> None:
        """The step's questions go out, all together."""
        self._take_answers()
        wanted = [(key, asked) for key, asked in self._new if self._asked.get(key) is asked]
        self._new = []
        if not wanted:
            return
        until = time.monotonic() + 2 * self._timeout
        for _, asked in wanted:
            asked.until = until
        self._count(lookups=len(wanted))
        questions = [asked for _, asked in wanted]

        def end(t: Transfer) -> None:
            self._answer(questions, t)

        self._ask(_mover.EXIST, [key for key, _ in wanted], end)

    def _ask(self, verb: str, engine_keys: list[bytes], end: Callable[[Transfer], None]) -> None:
        self._mover.start(Transfer(verb, engine_keys, (), self._timeout, end))

    def _answer(self, questions: list[_Asked], t: Transfer) -> None:
        """In a thread of the mover's."""
        self._answers.put((questions, t.results))
        found = [k for k, is_there in zip(t.engine_keys, t.results) if is_there]
        self._count(lookups_found=len(found), lookups_failed=bool(t.error))
        if found:
            with contextlib.suppress(pealkv.PealError):  # it is being closed
                self._ask(_mover.HINT, found, self._hinted)

    def _hinted(self, t: Transfer) -> None:
        self._count(hints_failed=bool(t.error))

    def _take_answers(self) -> None:
        while True:
            try:
                questions, results = self._answers.get_nowait()
            except queue.Empty:
                return
            for asked, found in zip(questions, results):
                if asked.found is None:
                    asked.found = found

    def on_new_request(self, req_context: Any) -> Any:
        return offload.RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        for key in self._of_req.pop(req_context.req_id, ()):
            asked = self._asked.get(key)
            if asked is not None:
                asked.reqs.discard(req_context.req_id)
                if not asked.reqs:
                    del self._asked[key]

    # -- jobs

    def submit_load(self, job_metadata: Any) -> None:
        self._start(job_metadata, _mover.GET, self._views(job_metadata))

    def submit_store(self, job_metadata: Any) -> None:
        """What is there already isn't stored again; beyond save_bytes nothing is."""
        rows = self._views(job_metadata)
        nr_bytes = len(rows) * self._row_bytes
        with self._lock:
            is_taken = self._saving_bytes + nr_bytes <= self._max_bytes
            self._saving_bytes += nr_bytes if is_taken else 0
        if is_taken:
            self._start(job_metadata, _mover.SAVE, rows)
            return
        for view in rows:
            view.release()
        self._count(stores_dropped=1)
        dropped = Transfer(_mover.SAVE, list(job_metadata.keys), (), self._timeout, lambda _: None)
        self._done.put((job_metadata, dropped))

    def _views(self, job: Any) -> list[memoryview]:
        """The job's rows, a key each. Raises ValueError: other bytes under a key would be wrong for
        ever."""
        ids = [int(i) for i in (job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids)]
        row = self._row_bytes
        nr_keys, nr_rows = len(list(job.keys)), len(self._rows) // row
        if len(ids) != nr_keys:
            raise ValueError(f"PealTier: {nr_keys} keys and {len(ids)} rows")
        for i in ids:
            if not 0 <= i < nr_rows:
                raise ValueError(f"PealTier: row {i}, expected 0 to {nr_rows - 1}")
        return [self._rows[i * row : i * row + row] for i in ids]

    def _start(self, job: Any, verb: str, rows: list[memoryview]) -> None:

        def end(t: Transfer) -> None:
            for view in rows:
                with contextlib.suppress(BufferError):
                    view.release()
            self._done.put((job, t))
            with self._lock:
                self._nr_jobs -= 1
                self._saving_bytes -= t.nr_bytes if verb == _mover.SAVE else 0
                self._lock.notify_all()

        with self._lock:
            self._nr_jobs += 1
        self._mover.start(Transfer(verb, list(job.keys), rows, self._timeout, end))

    def get_finished_jobs(self) -> Iterable[Any]:
        """Each once. What a load didn't bring is a MISS from now on: its request computes it. What
        was stored is there from now on, also for who was told before that it isn't."""
        results: list[Any] = []
        while True:
            try:
                job, t = self._done.get_nowait()
            except queue.Empty:
                return results
            good = [k for k, is_good in zip(t.engine_keys, t.results) if is_good]
            lost = len(t.results) - len(good)
            if t.verb == _mover.GET:
                self._count(chunks_loaded=len(good), chunks_lost=lost, loads_failed=bool(t.error))
            else:
                self._count(chunks_saved=len(good), chunks_dropped=lost,
                            stores_failed=bool(t.error))
            self._learn(t)
            results.append(self._result(job, t, good, lost))

    def _learn(self, t: Transfer) -> None:
        """What a job's end says of keys that somebody has asked for."""
        for key, is_good in zip(t.engine_keys, t.results):
            asked = self._asked.get(key)
            if asked is None or is_good != (t.verb == _mover.SAVE):
                continue
            asked.found = is_good

    def _result(self, job: Any, t: Transfer, good: list[bytes], lost: int) -> Any:
        said = {
            "job_id": job.job_id,
            "success": not lost,
            "successful_keys": tuple(good) if lost and good and t.verb == _mover.GET else None,
            "transfer_time": time.monotonic() - t.began,
            "transfer_bytes": len(good) * self._row_bytes,
        }
        return tiering.JobResult(**{n: v for n, v in said.items() if n in _RESULT_FIELDS})

    def drain_jobs(self) -> None:
        """Queued jobs end undone; those under way by their deadline. vLLM empties its caches then:
        what was stored until now isn't met any more, or other weights would meet it."""
        self._drain()
        if self._keeps:
            return
        self._space = dataclasses.replace(
            self._space, salt=self._salt + b"\0" + os.urandom(16)
        )
        self._mover.rename(self._space)
        self._asked.clear()
        self._new.clear()
        logger.info("Peal: reset: what is stored stays, but isn't met any more")

    def _drain(self) -> None:
        self._mover.cancel()
        with self._lock:
            self._lock.wait_for(lambda: not self._nr_jobs)

    def shutdown(self) -> None:
        """The primary tier may be unmapped then."""
        self._drain()
        self._mover.close()
        self._link.close()
        self._rows.release()

    def _count(self, **counts: int) -> None:
        with self._lock:
            for name, nr in counts.items():
                self._counts[name] += nr

    def counts(self) -> dict[str, int]:
        """Since the start; doc/engines.md says of what."""
        with self._lock:
            return dict(self._counts)


def _weights(model: str) -> str:
    shim = types.SimpleNamespace(model=model, hf_config=None, revision=None, seed=0)
    found = _config.weights(shim, "auto")
    config = os.path.join(model, "config.json")
    if os.path.isfile(config):
        with open(config, "rb") as f:
            found += ",config=" + hashlib.blake2b(f.read(), digest_size=16).hexdigest()
    return found


def space(spec: Any, row_bytes: int, revision: str, salt: str) -> keys.Space:
    """Of the rows of an engine: all that vLLM's normalized configuration says of their bytes."""
    config = spec.config
    parallel = config.parallel
    try:
        found = revision or _weights(config.model.name)
    except ValueError as e:
        raise ValueError(f"PealTier: {str(e).partition(': ')[2]}; say it as revision") from None
    layout = {
        "groups": [[g.tokens_per_block, list(g.layer_names)] for g in config.groups],
        "row": row_bytes,
        "worker_bytes": config.worker_kv_bytes_per_block,
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": getattr(config.cache, "blocks_per_chunk", None)
        or getattr(spec, "blocks_per_chunk", None),
        "kv_cache_layout": getattr(config, "kv_cache_layout", None),
        "canonical": getattr(config, "canonical_layout", False),
        "replicated": getattr(config, "replicated_layout", False),
        # A row holds all workers' bytes, one behind the other.
        "workers": [parallel.world_size, parallel.tp_size, parallel.pp_size, parallel.pcp_size,
                    parallel.dcp_size],
    }
    text = json.dumps(layout, sort_keys=True)
    return keys.Space(
        model=config.model.name,
        revision=found,
        dtype=str(config.model.dtype),
        layout="rows:" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        block_tokens=max(1, config.groups[0].tokens_per_block if config.groups else 1),
        hash="vllm offload",
        salt=salt.encode(),
    )
