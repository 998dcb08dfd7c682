# SPDX-License-Identifier: Apache-2.0
"""Keys made of an engine's own: the same prefix of the same model has the same 16 bytes everywhere.

    space = keys.Space(model="org/model", revision="8ae1...", dtype="bfloat16",
                       layout="NHD:layers=32,heads=8,dim=128", block_tokens=256,
                       hash="sha256_cbor", seed=b"0")
    key, tag = space.name(block_hash)           # 16 bytes, 32 bytes
    store.put(key, value, tag=tag)
    store.get(key, want_tag=tag)                # bytes stored under another name are a miss

Byte by byte in doc/keys.md; the same as peal/key.h in C, held to the same vectors. Needs nothing
but the standard library.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import struct
from collections.abc import Callable
from typing import Union

__all__ = ["DIGEST_BYTES", "FIELD_MAX", "KEY_BYTES", "TAG_BYTES", "Space", "Type"]

KEY_BYTES = 16
TAG_BYTES = 32
DIGEST_BYTES = 32
FIELD_MAX = 4096
"""Bytes of a text, of seed, of salt, of an engine's key, at most."""

_MAGIC = b"pealkey\x01"

Bytes = Union[bytes, bytearray, memoryview]


class Type(enum.IntEnum):
    """What a value is; two types never share a key. From USER to 255 they are the caller's."""

    BLOCK = 1
    """Attention KV of a block of tokens."""
    STATE = 2
    """The state of a recurrent layer behind a token."""
    EMBED = 3
    """An embedding: of an image, a document."""
    SHARD = 4
    """Weights."""
    USER = 128


@dataclasses.dataclass(frozen=True)
class Space:
    """What all values of an engine's rank have in common.

    Whatever changes the bytes of a block must change one of these fields. Texts are taken as their
    UTF-8 bytes, without any normalisation.

    Raises:
        ValueError: a field that is empty, too long (FIELD_MAX bytes), has a NUL, or is out of
            range; the text names it and what was expected.
        TypeError: a field of another type.
    """

    model: str
    """Its name, or a digest of its configuration. Not empty."""
    dtype: str
    """Of the values, as in "bfloat16" or "fp8_e4m3". Not empty."""
    layout: str
    """Shapes, strides and their order, as in "NHD:layers=32,heads=8,dim=128". Not empty."""
    block_tokens: int
    """Tokens in one value, 1 or more."""
    hash: str
    """What made the engine's keys, as in "sha256_cbor". Not empty."""
    revision: str = ""
    """Of the weights: a commit or a digest, with adapters that were merged into them."""
    scale: str = ""
    """How scales are kept; "" where there are none."""
    tp_size: int = 1
    """Tensor parallel degree. Where all ranks hold the same bytes (MLA), leave 1 and 0."""
    tp_rank: int = 0
    pp_size: int = 1
    """Pipeline parallel degree."""
    pp_rank: int = 0
    cp_size: int = 1
    """Context parallel degree."""
    cp_rank: int = 0
    group: int = 0
    """KV cache group; 0 where there is one."""
    seed: bytes = b""
    """Of that hash, or the first hash of a chain."""
    salt: bytes = b""
    """The tenant's: another salt never meets these values."""

    def __post_init__(self) -> None:
        self.canonical  # noqa: B018 - checks every field

    @functools.cached_property
    def canonical(self) -> bytes:
        """The fields, each as its number, its length (4 bytes, little-endian) and its bytes."""
        out = [_MAGIC]
        for number, encode in enumerate(_FIELDS, 1):
            data = encode(self)
            out.append(struct.pack("<BI", number, len(data)) + data)
        return b"".join(out)

    @functools.cached_property
    def digest(self) -> bytes:
        """BLAKE2b-256 of the canonical bytes."""
        return hashlib.blake2b(self.canonical, digest_size=DIGEST_BYTES).digest()

    def key(self, engine_key: Bytes, type: int = Type.BLOCK) -> bytes:
        """The 16 bytes of an engine's key (1 to FIELD_MAX bytes of it)."""
        return hashlib.blake2b(self._text(engine_key, type), digest_size=KEY_BYTES).digest()

    def name(self, engine_key: Bytes, type: int = Type.BLOCK) -> tuple[bytes, bytes]:
        """Key and tag. The tag is stored with the value, and asked for when it is read."""
        text = self._text(engine_key, type)
        return (
            hashlib.blake2b(text, digest_size=KEY_BYTES).digest(),
            hashlib.blake2b(text, digest_size=TAG_BYTES).digest(),
        )

    def _text(self, engine_key: Bytes, type: int) -> bytes:
        if not 1 <= type <= 255:
            raise ValueError(f"key: type {type}, expected 1 to 255")
        data = bytes(engine_key)
        if not 1 <= len(data) <= FIELD_MAX:
            raise ValueError(
                f"key: an engine's key of {len(data)} bytes, expected 1 to {FIELD_MAX}"
            )
        return self.digest + bytes((type,)) + data


def _check_length(name: str, data: bytes, least: int) -> bytes:
    if not least <= len(data) <= FIELD_MAX:
        raise ValueError(
            f"key space: {name} has {len(data)} bytes, expected {least} to {FIELD_MAX}"
        )
    return data


class _Text:
    def __init__(self, name: str, least: int = 0) -> None:
        self.name, self.least = name, least

    def __call__(self, space: Space) -> bytes:
        value = getattr(space, self.name)
        if not isinstance(value, str):
            raise TypeError(f"key space: {self.name} is a {type(value).__name__}, expected str")
        if "\0" in value:
            raise ValueError(f"key space: {self.name} has a NUL, expected none")
        return _check_length(self.name, value.encode(), self.least)


class _Blob:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, space: Space) -> bytes:
        value = getattr(space, self.name)
        if not isinstance(value, bytes):
            raise TypeError(f"key space: {self.name} is a {type(value).__name__}, expected bytes")
        return _check_length(self.name, value, 0)


class _Number:
    def __init__(self, name: str, least: int = 0, below: str = "") -> None:
        self.name, self.least, self.below = name, least, below

    def __call__(self, space: Space) -> bytes:
        value = getattr(space, self.name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"key space: {self.name} is a {type(value).__name__}, expected int")
        if not self.least <= value < 1 << 32:
            raise ValueError(
                f"key space: {self.name} is {value}, expected {self.least} to 4294967295"
            )
        if self.below and value >= getattr(space, self.below):
            raise ValueError(
                f"key space: {self.name} is {value}, expected less than its size, "
                f"{getattr(space, self.below)}"
            )
        return struct.pack("<I", value)


_FIELDS: tuple[Callable[[Space], bytes], ...] = (
    _Text("model", 1),
    _Text("revision"),
    _Text("dtype", 1),
    _Text("scale"),
    _Text("layout", 1),
    _Number("block_tokens", 1),
    _Number("tp_size", 1),
    _Number("tp_rank", 0, "tp_size"),
    _Number("pp_size", 1),
    _Number("pp_rank", 0, "pp_size"),
    _Number("cp_size", 1),
    _Number("cp_rank", 0, "cp_size"),
    _Number("group"),
    _Text("hash", 1),
    _Blob("seed"),
    _Blob("salt"),
)
