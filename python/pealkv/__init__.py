# SPDX-License-Identifier: Apache-2.0
"""Peal from Python: KV caches of language models in a daemon that outlives the engine.

    import pealkv

    store = pealkv.open("spawn:~/.cache/pealkv?dram=8G&ssd=100G")
    store.put(b"a key", block)                  # bytes, memoryview, numpy, torch (CPU)
    store.get_into(b"a key", block) is None     # a miss: recompute

URIs: "vfu:PATH", a daemon's socket or its folder; "spawn:FOLDER?dram=8G&ssd=100G&linger=600", the
daemon of a folder, which is started when there is none, is private to the user, and goes `linger`
seconds after its last client. Of two that open at once, one starts it and both attach.

Values are 1 byte to 128 MiB, keys 1 to 16 bytes (pealkv.keys makes them of an engine's). All is
checked on the way: damaged bytes are a miss.
"""

from __future__ import annotations

from . import keys
from ._batch import Many
from ._buffer import Buffer, Key
from ._client import Client
from ._errors import (
    Absent,
    BadArgument,
    Busy,
    Disconnected,
    Exists,
    Forked,
    NoSpace,
    NotAllowed,
    PealError,
    TooLarge,
    TooSmall,
    Timeout,
    Unsupported,
)
from ._later import Completions
from ._memory import Memory
from ._records import Estimate, Hint, Info, Match, Meta, Say, Stats

__version__ = "0.1.0"

__all__ = [
    "Absent", "BadArgument", "Buffer", "Busy", "Client", "Completions", "Disconnected", "Estimate",
    "Exists", "Forked", "Hint", "Info", "Key", "Many", "Match", "Memory", "Meta", "NoSpace",
    "NotAllowed", "PealError", "Say", "Stats", "Timeout", "TooLarge", "TooSmall", "Unsupported",
    "keys", "open",
]


def open(
    uri: str,
    *,
    timeout: float = 2.0,
    nsid: int = 0,
    buffer_bytes: int = 0,
    reconnect: bool = True,
    threads: int = 2,
    batches: int = 4,
) -> Client:
    """Attaches to a daemon; blocks at most `timeout` (spawn: 10 s or that, and with ssd a second
    more for each 64 MiB of it, since new files are made whole first).

    Args:
        uri: see above; a ~ is the user's home.
        timeout: seconds, of every call that gives none.
        nsid: the namespace; 0 is the lowest.
        buffer_bytes: of the library's own buffers; 0 is 64 MiB.
        reconnect: in the background when the daemon goes.
        threads: for later(), aio() and completions().
        batches: at once; others wait for their turn.

    Raises:
        Disconnected, NotAllowed, Timeout; BadArgument: a URI that isn't one, and why.
    """
    return Client(
        uri,
        timeout=timeout,
        nsid=nsid,
        buffer_bytes=buffer_bytes,
        reconnect=reconnect,
        threads=threads,
        batches=batches,
    )
