# SPDX-License-Identifier: Apache-2.0
"""What calls give and take besides bytes, and how the library has it."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, Optional

from . import _buffer, _errors
from ._peal import ffi


@dataclasses.dataclass(frozen=True)
class Info:
    """The namespace; sizes in bytes."""

    nsid: int
    key_max: int
    value_max: int
    capacity_bytes: int
    used_bytes: int
    is_immutable: bool
    has_lease: bool
    subsystem: str


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters of this client since it was opened; bytes are values'."""

    calls: int
    hits: int
    misses: int
    timeouts: int
    reconnects: int
    bytes_in: int
    bytes_out: int
    bad_seals: int
    """Damage that the client itself has caught; it was a miss."""
    quarantined_bytes: int
    """Now: buffers that wait for answers to commands that timed out."""
    bad_tags: int
    """Values with another tag than wanted: misses, and a reason to look at how keys are made."""


@dataclasses.dataclass(frozen=True)
class Match:
    """Leading keys that are present, and how many of them are in memory."""

    present: int
    in_memory: int


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What loading a chain would take, by this client's own measurements."""

    present: int
    in_memory: int
    memory_bytes_per_s: int
    below_bytes_per_s: int
    is_measured: bool
    """False: a rate that counts here is a guess."""
    load_seconds: float
    """For all that are present, one after the other."""
    memory_seconds: float
    """Its part for those in memory."""


class Say(enum.IntEnum):
    """What the caller knows about a key."""

    PREFETCH = 1
    """It will be wanted: into memory within `ms` (0: whenever), by `weight` among equals."""
    CANCEL = 2
    """It won't be, after all."""
    DEMOTE = 3
    """Out of memory, to the tier below."""
    PIN = 4
    """It stays in memory for `ms`."""
    UNPIN = 5
    SCORE = 6
    """`weight`: attention, 0 to 255."""


@dataclasses.dataclass(frozen=True)
class Hint:
    """Of one key; see Client.hint()."""

    key: _buffer.Key
    say: Say = Say.PREFETCH
    ms: int = 0
    weight: int = 0


@dataclasses.dataclass
class Meta:
    """What travels with a value."""

    tag: bytes = bytes(_buffer.TAG_BYTES)
    """32 bytes, the rest of the engine's key: pealkv.keys."""
    parent: bytes = b""
    """Key of the block before it in its chain."""
    group: bytes = b""
    """Key of the chain's root: a conversation, a document."""
    cls: int = 0
    """Class, 0 to 65535; 0 is none."""
    cost_us: int = 0
    """What recomputing it takes, microseconds; 0 is unknown."""
    seq: int = 0
    """Its place in the chain, blocks."""


def milliseconds(timeout: Optional[float]) -> int:
    """0: the client's own."""
    if timeout is None:
        return 0
    if not 0 < timeout <= 86400:
        raise _errors.BadArgument(f"timeout {timeout}, expected more than 0 and at most a day, s")
    return max(1, math.ceil(timeout * 1000))


def _put_key(into: Any, key: bytes) -> None:
    if key:
        data = _buffer.key_bytes(key)
        ffi.memmove(into.b, data, len(data))
        into.len = len(data)


def meta_struct(meta: Meta) -> Any:
    m = ffi.new("struct peal_meta *")
    try:
        m.cls, m.cost_us, m.seq = meta.cls, meta.cost_us, meta.seq
    except OverflowError as e:
        raise _errors.BadArgument(f"metadata: {e}") from None
    _put_key(m.parent, meta.parent)
    _put_key(m.group, meta.group)
    ffi.memmove(m.tag, _buffer.tag_bytes(meta.tag), _buffer.TAG_BYTES)
    return m
