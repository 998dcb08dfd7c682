# SPDX-License-Identifier: Apache-2.0
"""vLLM keeps its KV cache in Peal, so that long prompts come back after a restart of the engine.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "PealConnector",
      "kv_connector_module_path": "pealkv.vllm", "kv_role": "kv_both",
      "kv_connector_extra_config": {"uri": "spawn:~/.cache/pealkv?dram=8G&ssd=100G"}}'

Options are those of _config.Options; sizing, counters and what to do when it doesn't work are in
doc/engines.md. For models of one KV cache group with full attention on one rank; others are refused
at start, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._connector import PealConnector

__all__ = ["PealConnector"]


def __getattr__(name: str) -> Any:
    """PealConnector, when it is asked for: the parts beside it don't need vLLM."""
    if name == "PealConnector":
        from ._connector import PealConnector

        return PealConnector
    raise AttributeError(name)
