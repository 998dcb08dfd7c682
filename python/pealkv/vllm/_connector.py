# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""The class that vLLM loads: two halves, of which each process has one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
)
from vllm.logger import init_logger
from vllm.v1.core import kv_cache_utils

from ._config import Identity, Options, check
from ._meta import Report, Step
from ._scheduler import Scheduler
from ._stats import PealPromMetrics, PealStats
from ._worker import Worker

log = init_logger("vllm.peal")


class PealMetadata(KVConnectorMetadata):
    def __init__(self, step: Step) -> None:
        self.step = step


class PealWorkerMetadata(KVConnectorWorkerMetadata):
    def __init__(self, report: Report) -> None:
        self.report = report

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        self.report.add(other.report)
        return self


def has_random_seed(hash_name: str) -> bool:
    """Whether this engine's block hashes are its own: another process has others."""
    if os.getenv("PYTHONHASHSEED") is not None:
        return False
    is_fixed = hasattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED")
    return not is_fixed or hash_name.startswith("xxhash")


class PealConnector(KVConnectorBase_V1):
    """See pealkv.vllm.

    Raises (at the engine's start):
        ValueError: an option, or a model that it isn't for, by name.
    """

    def __init__(
        self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any = None
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        options = Options.of(dict(self._kv_transfer_config.kv_connector_extra_config or {}))
        value_blocks = check(vllm_config, kv_cache_config, options)
        self._scheduler: Optional[Scheduler] = None
        self._worker: Optional[Worker] = None
        self._block_tokens = options.value_tokens // value_blocks
        if role == KVConnectorRole.SCHEDULER:
            ranks = vllm_config.parallel_config.world_size
            self._scheduler = Scheduler(options, value_blocks, ranks, log)
            algorithm = vllm_config.cache_config.prefix_caching_hash_algo
            if has_random_seed(str(algorithm)):
                log.warning(
                    "Peal: block hashes (%s) are seeded at random in this process: nothing that it "
                    "stores will be found by another, nor after a restart. Set PYTHONHASHSEED",
                    algorithm,
                )
        else:
            identity = Identity(vllm_config, options)
            self._worker = Worker(options, value_blocks, identity.space, log)

    @property
    def requires_kv_delivery(self) -> bool:
        """A save that is dropped is a miss later, no more."""
        return False

    # -- the worker's

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        assert self._worker is not None
        self._worker.register(kv_caches, self._kv_cache_config.num_blocks, self._block_tokens)

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        if self._worker is not None:
            self._worker.begin(connector_metadata.step)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Called with each step, before its forward or after it."""
        if self._worker is not None:
            self._worker.load(self._get_connector_metadata().step)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """What a step needs is there before it begins."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Whole blocks are saved, after the step."""

    def wait_for_save(self) -> None:
        if self._worker is not None and self.has_connector_metadata():
            self._worker.save(self._get_connector_metadata().step)

    def get_finished(
        self, finished_req_ids: set[str]
    ) -> tuple[Optional[set[str]], Optional[set[str]]]:
        if self._worker is None:
            return None, None
        sent, received = self._worker.finished()
        return sent or None, received or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.invalid() if self._worker is not None else set()

    def build_connector_worker_meta(self) -> Optional[KVConnectorWorkerMetadata]:
        report = self._worker.report() if self._worker is not None else None
        return PealWorkerMetadata(report) if report is not None else None

    def shutdown(self) -> None:
        if self._worker is not None:
            self._worker.close()

    # -- the scheduler's

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[Optional[int], bool]:
        assert self._scheduler is not None
        return self._scheduler.matched(request, num_computed_tokens)

    def update_state_after_alloc(
        self, request: Any, blocks: Any, num_external_tokens: int
    ) -> None:
        assert self._scheduler is not None
        self._scheduler.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        assert self._scheduler is not None
        seed = bytes(getattr(kv_cache_utils, "NONE_HASH", b""))
        return PealMetadata(self._scheduler.build(scheduler_output, seed))

    def update_connector_output(self, connector_output: Any) -> None:
        assert self._scheduler is not None
        meta = connector_output.kv_connector_worker_meta
        self._scheduler.update(meta.report if meta is not None else None)

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, Optional[dict[str, Any]]]:
        assert self._scheduler is not None
        return self._scheduler.finished(request), None

    def reset_cache(self) -> Optional[bool]:
        return self._scheduler.reset() if self._scheduler is not None else None

    def take_events(self) -> Iterable[Any]:
        return ()

    # -- counters

    def get_kv_connector_stats(self) -> Optional[PealStats]:
        half = self._worker or self._scheduler
        counts = half.counts() if half is not None else None
        return PealStats(data=counts) if counts else None

    @classmethod
    def build_kv_connector_stats(
        cls, data: Optional[dict[str, Any]] = None
    ) -> Optional[PealStats]:
        return PealStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine_labelvalues: Any
    ) -> PealPromMetrics:
        return PealPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)
