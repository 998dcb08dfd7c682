# SPDX-License-Identifier: Apache-2.0
"""Many values in one call of the library, so that Python's share of each is small."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Sequence
from typing import Any, Optional, TypeVar, Union

from . import _buffer, _errors, keys
from ._base import Base, reason
from ._buffer import Buffer, Key
from ._peal import ffi, lib
from ._records import Meta, meta_struct, milliseconds

T = TypeVar("T")

Many = list[Union[T, _errors.PealError]]
"""Of a batch: for each key its result, or the error that it would have raised alone."""

_BATCH_DEPTH = 256


class _Queue:
    """A peal_queue with room for the requests of a batch; one thread at a time."""

    def __init__(self, client: Base) -> None:
        out = ffi.new("struct peal_queue **")
        client._check(lib.peal_queue_open(client._p, _BATCH_DEPTH, out))
        self.q = out[0]
        self.fill = ffi.new("struct pk_fill *")
        self.nr = 0
        self.room(_BATCH_DEPTH)

    def room(self, nr: int) -> None:
        if nr > self.nr:
            self.reqs = ffi.new("struct peal_req[]", nr)
            self.out = ffi.new("int64_t[]", nr)
            self.nr = nr


def _joined(keys: Union[Sequence[Key], bytes]) -> tuple[bytes, bytes, int]:
    """All keys, 16 bytes each; their lengths (b"": all 16); how many they are."""
    size = _buffer.KEY_MAX
    if isinstance(keys, bytes):
        if len(keys) % size:
            raise _errors.BadArgument(f"{len(keys)} bytes of keys, expected a multiple of {size}")
        return keys, b"", len(keys) // size
    nr = len(keys)
    if {type(k) for k in keys} == {bytes} and {len(k) for k in keys} == {size}:
        return b"".join(keys), b"", nr  # type: ignore[arg-type]
    made = [_buffer.key_bytes(key) for key in keys]
    return b"".join([k.ljust(size, b"\0") for k in made]), bytes(map(len, made)), nr


def _joined_tags(tags: Union[Sequence[bytes], bytes], nr: int) -> bytes:
    if not isinstance(tags, bytes):
        tags = b"".join([_buffer.tag_bytes(t) for t in tags])
    if len(tags) != nr * _buffer.TAG_BYTES:
        raise _errors.BadArgument(
            f"{len(tags) / _buffer.TAG_BYTES:g} tags, expected {nr}, one for each key"
        )
    return tags


def names(space: keys.Space, engine_keys: Sequence[bytes], type: int) -> tuple[bytes, bytes]:
    """Keys and tags, one behind the other, as space.name() makes them; ValueError as there."""
    ends = ffi.new("size_t[]", list(itertools.accumulate(map(len, engine_keys))))
    nr = len(engine_keys)
    made = ffi.new("uint8_t[]", _buffer.KEY_MAX * nr)
    tags = ffi.new("uint8_t[]", _buffer.TAG_BYTES * nr)
    digest, text = ffi.from_buffer("uint8_t[]", space.digest), b"".join(engine_keys)
    if lib.pk_names(digest, type, ffi.from_buffer(text), ends, nr, made, tags) < 0:
        raise ValueError(reason())
    return bytes(ffi.buffer(made)), bytes(ffi.buffer(tags))


class Batches(Base):
    """Batches run one per queue, at most `batches` at once; others wait for their turn.

    How bytes move. Memory of alloc() and register(), with direct=True: by the daemon, in one copy.
    Other memory: gets of up to 64 KiB through a buffer of the library's, many under way; larger
    ones by lease and one copy of the client's own; puts through such a buffer.
    """

    def get_many(
        self,
        keys: Union[Sequence[Key], bytes],
        buffers: Sequence[Buffer],
        *,
        want_tags: Optional[Union[Sequence[bytes], bytes]] = None,
        direct: bool = False,
        part: bool = False,
        timeout: Optional[float] = None,
    ) -> Many[Optional[int]]:
        """Values into buffers, in one call: for each its size, None for a miss, or a PealError.

        Args:
            keys: as many as buffers; or their bytes one behind the other, 16 each.
            want_tags: of 32 bytes, or one behind the other; a value with another is a miss.
            direct: the daemon writes the buffers itself. They have to lie in memory of alloc() or
                register(), and there is no timeout: the call ends when the daemon has answered or
                is dead.
            part: what fits is enough; the size is the whole value's.
            timeout: of all together.
        """
        bufs = [_buffer.address(b, True) for b in buffers]
        flags = (lib.PEAL_DIRECT if direct else 0) | (lib.PEAL_PART if part else 0)
        out = self._many(lib.PEAL_REQ_GET, keys, bufs, flags, want_tags, timeout)
        miss = -errno.ENOENT
        if min(out, default=0) >= 0:
            return list(out)
        return [
            n if n >= 0 else None if n == miss else self._error("get", n, keys, i)
            for i, n in enumerate(out)
        ]

    def put_many(
        self,
        keys: Union[Sequence[Key], bytes],
        values: Sequence[Buffer],
        *,
        if_absent: bool = False,
        direct: bool = False,
        metas: Optional[Sequence[Optional[Meta]]] = None,
        tags: Optional[Union[Sequence[bytes], bytes]] = None,
        timeout: Optional[float] = None,
    ) -> Many[None]:
        """Stores values in one call: for each None, or the PealError. Arguments as get_many()'s.

        Args:
            tags: what goes along with each where that is all; or else metas.
        """
        if tags is not None and metas is not None:
            raise _errors.BadArgument("put_many: both metas and tags, expected one of them")
        bufs = [_buffer.address(b, False) for b in values]
        flags = (lib.PEAL_DIRECT if direct else 0) | (lib.PEAL_IF_ABSENT if if_absent else 0)
        out = self._many(lib.PEAL_REQ_PUT, keys, bufs, flags, tags, timeout, metas)
        return [None if n >= 0 else self._error("put", n, keys, i) for i, n in enumerate(out)]

    def exist_many(
        self, keys: Union[Sequence[Key], bytes], *, timeout: Optional[float] = None
    ) -> Many[bool]:
        """Whether each is there; match() is quicker for a chain."""
        return self._bools(lib.PEAL_REQ_EXIST, "exist", keys, timeout)

    def delete_many(
        self, keys: Union[Sequence[Key], bytes], *, timeout: Optional[float] = None
    ) -> Many[bool]:
        """Deletes them; for each whether it was there."""
        return self._bools(lib.PEAL_REQ_DEL, "delete", keys, timeout)

    def _bools(
        self, op: int, verb: str, keys: Union[Sequence[Key], bytes], timeout: Optional[float]
    ) -> Many[bool]:
        out = self._many(op, keys, None, 0, None, timeout)
        miss = -errno.ENOENT
        return [
            True if n >= 0 else False if n == miss else self._error(verb, n, keys, i)
            for i, n in enumerate(out)
        ]

    def _error(self, verb: str, n: int, keys: Any, i: int) -> _errors.PealError:
        key = keys[16 * i : 16 * i + 16] if type(keys) is bytes else _buffer.key_bytes(keys[i])
        return _errors.make(-n, f"{verb} 0x{key.hex()}: {os.strerror(-n)}", key)

    def _many(
        self,
        op: int,
        keys: Union[Sequence[Key], bytes],
        bufs: Optional[list[Any]],
        flags: int,
        tags: Optional[Union[Sequence[bytes], bytes]],
        timeout: Optional[float],
        metas: Optional[Sequence[Optional[Meta]]] = None,
    ) -> list[int]:
        joined, lengths, nr = _joined(keys)
        for what, given in (("buffers", bufs), ("metas", metas)):
            if given is not None and len(given) != nr:
                raise _errors.BadArgument(f"{len(given)} {what}, expected {nr}, one for each key")
        ms = milliseconds(timeout)
        alive: list[Any] = []  # what the requests point to
        p = self._begin()
        try:
            q = self._take_queue(nr)
            try:
                f = q.fill
                f.op, f.flags, f.bufs, f.tags = op, flags, ffi.NULL, ffi.NULL
                f.metas = ffi.NULL
                f.keys = keys_at = ffi.from_buffer(joined)
                f.lengths = lengths_at = ffi.from_buffer(lengths) if lengths else ffi.NULL
                alive += [keys_at, lengths_at]
                if bufs is not None:
                    f.bufs = pointers = ffi.new("void *[]", bufs)
                    f.bytes = sizes = ffi.new("size_t[]", [len(b) for b in bufs])
                    alive += [pointers, sizes]
                if tags is not None:
                    f.tags = at = ffi.from_buffer("uint8_t[]", _joined_tags(tags, nr))
                    alive.append(at)
                    if op == lib.PEAL_REQ_PUT:
                        f.metas = at = ffi.new("struct peal_meta[]", nr)
                        alive.append(at)
                lib.pk_fill(q.reqs, nr, f)
                alive.append(self._set_metas(q, metas))
                self._check(lib.peal_run(q.q, q.reqs, nr, ms))
                lib.pk_results(q.reqs, nr, q.out)
                got: list[int] = ffi.unpack(q.out, nr) if nr else []
                return got
            finally:
                self._give_queue(q)
        finally:
            self._end()

    def _set_metas(self, q: _Queue, metas: Optional[Sequence[Optional[Meta]]]) -> list[Any]:
        structs = []
        for i, meta in enumerate(metas or ()):
            if meta is not None:
                structs.append(meta_struct(meta))
                q.reqs[i].meta = structs[-1]
        return structs

    def _take_queue(self, nr: int) -> _Queue:
        while True:
            with self._lock:
                while not self._idle and self._nr_queues >= self._max_queues:
                    self._lock.wait()
                q: Optional[_Queue] = self._idle.pop() if self._idle else None
                self._nr_queues += q is None
            if q is not None or (q := self._new_queue()) is not None:
                q.room(nr)
                return q

    def _new_queue(self) -> Optional[_Queue]:
        """None: the daemon grants no more of them, so that those that there are have to do."""
        try:
            return _Queue(self)
        except BaseException as e:
            with self._lock:
                self._nr_queues -= 1
                is_enough = isinstance(e, _errors.Busy) and self._nr_queues > 0
                if is_enough:
                    self._max_queues = self._nr_queues
                self._lock.notify_all()
            if is_enough:
                return None
            raise

    def _give_queue(self, q: _Queue) -> None:
        with self._lock:
            self._idle.append(q)
            self._lock.notify_all()
