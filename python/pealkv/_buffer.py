# SPDX-License-Identifier: Apache-2.0
"""Keys and buffers of the caller, as the library takes them.

A buffer is contiguous memory of any element type: bytes, bytearray, memoryview, mmap, array, a
numpy array, a torch tensor on the CPU. What comes out has its address and its size in bytes, and
holds on to the memory as long as it lives.
"""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any, Protocol, Union

from . import _errors
from ._peal import ffi, lib


class SupportsArray(Protocol):
    """A numpy array, or what looks like one."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class Tensor(Protocol):
    """A torch tensor: on the CPU, contiguous."""

    def data_ptr(self) -> int: ...
    def is_contiguous(self) -> bool: ...
    def element_size(self) -> int: ...
    def numel(self) -> int: ...


Buffer = Union[
    bytes, bytearray, memoryview, mmap.mmap, "array.array[Any]", SupportsArray, Tensor
]
"""Contiguous memory; its size is counted in bytes, whatever its elements are."""

Key = Union[bytes, bytearray, memoryview, str]
"""1 to 16 bytes; a str is "0x" and hex digits, or stands for its UTF-8 bytes."""

KEY_MAX: int = lib.PEAL_KEY_MAX
TAG_BYTES: int = lib.PEAL_TAG_BYTES


def key_bytes(key: Key) -> bytes:
    if type(key) is bytes and 1 <= len(key) <= KEY_MAX:
        return key
    if isinstance(key, str):
        made = lib.peal_key_text(key.encode())
        if made.len:
            return bytes(ffi.buffer(made.b, made.len))
        raise _errors.BadArgument(
            f"key {key!r}: neither 0x and 2 to 32 hex digits nor a text of 1 to {KEY_MAX} bytes"
        )
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise _errors.BadArgument(f"a key of type {type(key).__name__}, expected bytes or str")
    made_bytes = bytes(key)
    if not 1 <= len(made_bytes) <= KEY_MAX:
        raise _errors.BadArgument(f"a key of {len(made_bytes)} bytes, expected 1 to {KEY_MAX}")
    return made_bytes


def key_struct(key: Key) -> Any:
    """A struct peal_key *."""
    data = key_bytes(key)
    k = ffi.new("struct peal_key *")
    ffi.memmove(k.b, data, len(data))
    k.len = len(data)
    return k


def tag_bytes(tag: Union[bytes, bytearray, memoryview]) -> bytes:
    data = bytes(tag)
    if len(data) != TAG_BYTES:
        raise _errors.BadArgument(f"a tag of {len(data)} bytes, expected {TAG_BYTES}")
    return data


def _tensor(tensor: Any) -> Any:
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device != "cpu":
        raise _errors.Unsupported(
            f"a tensor on {device}, expected one on the CPU",
            advice="copy it to pinned CPU memory first",
        )
    if not tensor.is_contiguous():
        raise _errors.BadArgument(
            "a tensor that isn't contiguous", advice="pass tensor.contiguous(), or a view that is"
        )
    return _at(tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor)


def _at(address: int, nr: int, owner: object) -> Any:
    memory = (ctypes.c_char * nr).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]
    return ffi.from_buffer("char[]", memory)


def address(buffer: Any, is_writable: bool) -> Any:
    """A char[] cdata over the memory; len() of it is its size in bytes."""
    try:
        return ffi.from_buffer("char[]", buffer, is_writable)
    except (TypeError, ValueError, BufferError) as e:
        why = e
    if hasattr(buffer, "data_ptr") and hasattr(buffer, "element_size"):
        return _tensor(buffer)
    view = getattr(buffer, "view", None)
    if hasattr(buffer, "__array_interface__") and callable(view):
        # An element type without a buffer, as bfloat16 of ml_dtypes: its bytes.
        try:
            return ffi.from_buffer("char[]", view("uint8"), is_writable)
        except (TypeError, ValueError, BufferError) as e:
            why = e
    raise _errors.BadArgument(
        f"a {type(buffer).__name__}: {why}",
        advice="pass contiguous memory" + (" that can be written" if is_writable else ""),
    )
