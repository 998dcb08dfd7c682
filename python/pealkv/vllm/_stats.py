# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""Counters, as vLLM logs them and gives them to Prometheus. doc/engines.md says what each means."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

COUNTERS: dict[str, str] = {
    "lookups": "Prompts that were looked up",
    "lookups_down": "Prompts that weren't, because the daemon was away",
    "lookups_late": "Prompts that were computed because the answer took too long",
    "values_wanted": "Values that were looked up",
    "values_present": "Leading values that the daemon had",
    "values_loaded": "Values that were loaded",
    "values_computed": "Values that were there, but quicker to compute",
    "values_lost": "Values that were there and couldn't be loaded",
    "values_no_room": "Values that found no room in host memory",
    "load_retries": "Loads that were made only to measure",
    "bytes_loaded": "Bytes loaded",
    "load_seconds": "Seconds that loads took",
    "saves": "Values saved",
    "saves_present": "Values that the daemon had already",
    "saves_dropped": "Values not saved, because the daemon or memory wasn't free",
    "bytes_saved": "Bytes saved",
    "errors": "Calls of the daemon that failed",
    "timeouts": "Of them by their deadline",
}


class PealStats(KVConnectorStats):
    """A number for each counter that isn't 0."""

    data: dict[str, Any]

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: Any) -> PealStats:
        for name, nr in other.data.items():
            self.data[name] = self.data.get(name, 0) + nr
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: round(nr, 3) for name, nr in self.data.items()}

    def is_empty(self) -> bool:
        return not self.data


class PealPromMetrics(KVConnectorPromMetrics):
    """vllm:peal_<counter>_total."""

    def __init__(
        self, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine_labelvalues: Any
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[str, dict[int, Any]] = {}
        for name, what in COUNTERS.items():
            counter = self._counter_cls(
                name=f"vllm:peal_{name}", documentation=f"{what}.", labelnames=labelnames
            )
            self._counters[name] = {
                engine: counter.labels(*values) for engine, values in per_engine_labelvalues.items()
            }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, nr in transfer_stats_data.items():
            if name in self._counters:
                self._counters[name][engine_idx].inc(nr)
