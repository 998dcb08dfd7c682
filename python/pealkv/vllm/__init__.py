# SPDX-License-Identifier: Apache-2.0
"""vLLM keeps its KV cache in Peal, so that long prompts come back after a restart of the engine.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "PealConnector",
      "kv_connector_module_path": "pealkv.vllm", "kv_role": "kv_both",
      "kv_connector_extra_config": {"uri": "spawn:~/.cache/pealkv?dram=8G&ssd=100G"}}'

or, behind the host memory of vLLM's own offloading, PealTier as a secondary tier of it. Options are
those of _config.Options; sizing, counters and what to do when it doesn't work are in
doc/engines.md. For models of one KV cache group that keeps all tokens, LoRA and tensor parallelism
included; others are refused at start, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._connector import PealConnector
    from ._tier import PealTier

__all__ = ["PealConnector", "PealTier"]


def __getattr__(name: str) -> Any:
    """Those two, when they are asked for: the parts beside them don't need vLLM."""
    if name == "PealConnector":
        from ._connector import PealConnector

        return PealConnector
    if name == "PealTier":
        from ._tier import PealTier

        return PealTier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
