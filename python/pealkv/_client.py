# SPDX-License-Identifier: Apache-2.0
"""The client: one per process, for all its threads.

Calls leave the GIL while they wait. close() waits for calls that are under way; after a fork()
every call of the child raises Forked, and close() does nothing there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, ParamSpec, TypeVar

from . import _buffer, _errors
from ._base import reason
from ._batch import Batches
from ._buffer import Buffer, Key
from ._later import Completions
from ._memory import Memory, find_mapping
from ._peal import ffi, lib
from ._records import Estimate, Hint, Info, Match, Meta, Stats, meta_struct, milliseconds

P = ParamSpec("P")
T = TypeVar("T")

_SCRATCH_BYTES = 65536
_LIST_KEYS = 256


class _Call:
    """A struct peal_call, and what it points to."""

    def __init__(self, timeout: Optional[float], flags: int = 0) -> None:
        self.c = ffi.new("struct peal_call *")
        self.c.timeout_ms = milliseconds(timeout)
        self.c.flags = flags

    def want(self, tag: Optional[bytes]) -> None:
        if tag is not None:
            self.tag = ffi.from_buffer("uint8_t[]", _buffer.tag_bytes(tag))
            self.c.want_tag = self.tag


class Client(Batches):
    """A connection to a daemon; use open(). Any thread may call anything.

    Every call takes `timeout`, seconds; None is the client's. After it the memory that was passed
    in is the caller's again, whatever the daemon does.

    Raises (every call): Timeout, Disconnected, Busy, Forked, BadArgument, Unsupported, or PealError
    itself for what only a fault of the daemon explains.
    """

    # -- one value

    def put(
        self,
        key: Key,
        value: Buffer,
        *,
        if_absent: bool = False,
        if_present: bool = False,
        tag: Optional[bytes] = None,
        meta: Optional[Meta] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Stores a value of 1 byte to info().value_max. When it returns, a get finds it.

        Args:
            tag: 32 bytes that go with it; shorter for meta=Meta(tag=...).

        Raises:
            TooLarge, NoSpace; Exists (if_absent), Absent (if_present).
        """
        if tag is not None:
            meta = dataclasses.replace(meta or Meta(), tag=tag)
        flags = (lib.PEAL_IF_ABSENT if if_absent else 0) | (
            lib.PEAL_IF_PRESENT if if_present else 0
        )
        k, data = _buffer.key_struct(key), _buffer.address(value, False)
        call = _Call(timeout, flags)
        if meta is not None:
            call.c.meta = m = meta_struct(meta)  # noqa: F841 - keeps it alive
        p = self._begin()
        try:
            self._check(
                lib.peal_put(p, k, data, len(data), call.c), bytes(ffi.buffer(k.b, k.len))
            )
        finally:
            self._end()

    def get(
        self, key: Key, *, want_tag: Optional[bytes] = None, timeout: Optional[float] = None
    ) -> Optional[bytes]:
        """The value; None: a miss, so recompute. For large ones get_into() saves a copy.

        Args:
            want_tag: 32 bytes; a value that was put with others is a miss.
        """
        k, call = _buffer.key_struct(key), _Call(timeout)
        call.want(want_tag)
        p = self._begin()
        try:
            buf = self._scratch()
            n = self._get(p, k, buf, call)
            while n == -errno.EMSGSIZE:
                buf = _uncleared("char[]", call.c.value_bytes)
                n = self._get(p, k, buf, call)
        finally:
            self._end()
        return None if n < 0 else ffi.buffer(buf, n)[:]

    def get_into(
        self,
        key: Key,
        buffer: Buffer,
        *,
        offset: int = 0,
        part: bool = False,
        want_tag: Optional[bytes] = None,
        timeout: Optional[float] = None,
    ) -> Optional[int]:
        """The value into memory of the caller's: bytes delivered; None: a miss, and what is in the
        buffer is undefined.

        Up to 64 KiB the daemon copies into a buffer of the library's, and the client from there.
        Above, the client leases the value and copies it out of the daemon's memory itself, once.
        Either way it is checked, and the daemon never learns of the caller's memory.

        Args:
            offset: first byte of the value, a multiple of 4096 inside it.
            part: what fits is enough.

        Raises:
            TooSmall: `value_bytes` says the size.
        """
        k, data = _buffer.key_struct(key), _buffer.address(buffer, True)
        call = _Call(timeout, lib.PEAL_PART if part else 0)
        if offset < 0:
            raise _errors.BadArgument(f"offset {offset}, expected 0 or more")
        call.c.offset = offset
        call.want(want_tag)
        p = self._begin()
        try:
            n = self._get(p, k, data, call)
            if n == -errno.EMSGSIZE:
                self._check(n, bytes(ffi.buffer(k.b, k.len)), call.c.value_bytes)
        finally:
            self._end()
        return None if n < 0 else n

    def _get(self, p: Any, k: Any, buf: Any, call: _Call) -> int:
        """Bytes, -ENOENT or -EMSGSIZE."""
        n: int = lib.peal_get(p, k, buf, len(buf), call.c)
        if n < 0 and n != -errno.ENOENT and n != -errno.EMSGSIZE:
            self._check(n, bytes(ffi.buffer(k.b, k.len)))
        return n

    def _scratch(self) -> Any:
        try:
            return self._local.scratch
        except AttributeError:
            self._local.scratch = ffi.new("char[]", _SCRATCH_BYTES)
            return self._local.scratch

    def delete(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """True: it was there. When it returns, no get finds the value."""
        return self._bool(lib.peal_del, key, timeout)

    def exist(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """Whether a get now would find it."""
        return self._bool(lib.peal_exist, key, timeout)

    def _bool(self, call: Callable[..., int], key: Key, timeout: Optional[float]) -> bool:
        k = _buffer.key_struct(key)
        c = ffi.NULL
        if timeout is not None:
            c = _Call(timeout).c
        p = self._begin()
        try:
            n = call(p, k, c)
            if n != -errno.ENOENT:
                self._check(n, bytes(ffi.buffer(k.b, k.len)))
        finally:
            self._end()
        return n == 0

    def meta(self, key: Key, *, timeout: Optional[float] = None) -> Optional[tuple[int, Meta]]:
        """Size in bytes and metadata of a value; None: a miss. It isn't a use of the value."""
        k, call = _buffer.key_struct(key), _Call(timeout)
        call.c.meta = m = ffi.new("struct peal_meta *")
        p = self._begin()
        try:
            n = lib.peal_exist(p, k, call.c)
            if n == -errno.ENOENT:
                return None
            self._check(n, bytes(ffi.buffer(k.b, k.len)))
        finally:
            self._end()
        return int(call.c.value_bytes), Meta(
            tag=bytes(ffi.buffer(m.tag)),
            parent=bytes(ffi.buffer(m.parent.b, m.parent.len)),
            group=bytes(ffi.buffer(m.group.b, m.group.len)),
            cls=m.cls,
            cost_us=m.cost_us,
            seq=m.seq,
        )

    # -- chains

    def _keys(self, keys: Sequence[Key]) -> Any:
        array = ffi.new("struct peal_key[]", len(keys))
        for i, key in enumerate(keys):
            data = _buffer.key_bytes(key)
            ffi.memmove(array[i].b, data, len(data))
            array[i].len = len(data)
        return array

    def match(self, keys: Sequence[Key], *, timeout: Optional[float] = None) -> Match:
        """How many of the keys, from the first on, are present. Never waits for a slow tier."""
        array, in_memory = self._keys(keys), ffi.new("size_t *")
        call = _Call(timeout)
        p = self._begin()
        try:
            n = self._check(lib.peal_match(p, array, len(keys), in_memory, call.c))
        finally:
            self._end()
        return Match(n, in_memory[0])

    def hint(self, hints: Sequence[Hint], *, timeout: Optional[float] = None) -> int:
        """Tells the daemon what is known about keys; how many it took. None waits for a device, and
        none changes more than where a value lies.

        Raises:
            Unsupported: the daemon has no such command.
        """
        array = ffi.new("struct peal_hint[]", len(hints))
        for to, hint in zip(array, hints):
            data = _buffer.key_bytes(hint.key)
            ffi.memmove(to.key.b, data, len(data))
            to.key.len = len(data)
            try:
                to.say, to.ms, to.weight = int(hint.say), hint.ms, hint.weight
            except OverflowError as e:
                raise _errors.BadArgument(f"hint: {e}") from None
        call = _Call(timeout)
        p = self._begin()
        try:
            return self._check(lib.peal_hint(p, array, len(hints), call.c))
        finally:
            self._end()

    def estimate(self, keys: Sequence[Key], value_bytes: int) -> Estimate:
        """How long loading the leading keys that are present would take, values of `value_bytes`
        bytes each: by what this client's gets of more than 64 KiB took from memory and from below.
        """
        array, e = self._keys(keys), ffi.new("struct peal_estimate *")
        p = self._begin()
        try:
            self._check(lib.peal_estimate(p, array, len(keys), value_bytes, e))
        finally:
            self._end()
        return Estimate(
            e.present,
            e.in_memory,
            e.memory_bytes_per_s,
            e.below_bytes_per_s,
            bool(e.is_measured),
            e.load_us / 1e6,
            e.memory_us / 1e6,
        )

    def list(self, after: Optional[Key] = None) -> Iterator[bytes]:
        """All keys, in the store's order, or those behind `after`. What is put or deleted meanwhile
        may be among them or not."""
        array = ffi.new("struct peal_key[]", _LIST_KEYS)
        at = ffi.NULL if after is None else _buffer.key_struct(after)
        while True:
            p = self._begin()
            try:
                n = self._check(lib.peal_list(p, at, array, _LIST_KEYS, ffi.NULL))
            finally:
                self._end()
            if not n:
                return
            found = [bytes(ffi.buffer(array[i].b, array[i].len)) for i in range(n)]
            yield from found
            at = _buffer.key_struct(found[-1])

    def flush(self, *, timeout: Optional[float] = None) -> None:
        """When it returns, what was put is in the lowest tier that outlives the daemon."""
        call = _Call(timeout)
        p = self._begin()
        try:
            self._check(lib.peal_flush(p, call.c))
        finally:
            self._end()

    # -- memory that the daemon sees

    def alloc(self, nr_bytes: int) -> Memory:
        """Memory of the library's making, 4 KiB aligned, for direct batches."""
        out = ffi.new("struct peal_mem **")
        p = self._begin()
        try:
            self._check(lib.peal_mem_alloc(p, nr_bytes, out))
        finally:
            self._end()
        return Memory(self, out[0], None)

    def register(self, buffer: Buffer, *, fd: int = -1, offset: int = 0) -> Memory:
        """Registers the mapping that the buffer lies in, for direct batches.

        It has to be a shared, writable mapping of a file: a memfd, /dev/shm, what torch's
        share_memory_() makes. Without `fd` its descriptor is looked for among this process'
        own.

        Args:
            fd: of the memory, which starts at `offset` of it; whole pages then.

        Raises:
            Unsupported: it is no such memory; the reason says what it is. Batches copy then.
        """
        data = _buffer.address(buffer, True)
        at, nr = int(ffi.cast("uintptr_t", data)), len(data)
        mapping = find_mapping(at, nr, fd, offset)
        out = ffi.new("struct peal_mem **")
        p = self._begin()
        try:
            with mapping:
                self._check(
                    lib.peal_mem_register(
                        p, mapping.fd, mapping.offset, ffi.cast("void *", mapping.start),
                        mapping.nr_bytes, out,
                    )
                )
        finally:
            self._end()
        return Memory(self, out[0], data)

    # -- later

    def later(
        self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        """The call in a thread of the client's: client.later(client.get, key).

        The memory that it names is in use until the future is done.
        """
        if os.getpid() != self._pid:
            raise _errors.forked()
        return self._pool.submit(call, *args, **kwargs)

    async def aio(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for asyncio: value = await client.aio(client.get, key).

        A task that is cancelled meanwhile ends when the call has, so at its timeout at the latest:
        until then its memory is in use.
        """
        future = self.later(call, *args, **kwargs)
        waiter = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            if not future.cancel():
                await asyncio.wait([waiter])
                if not waiter.cancelled():
                    waiter.exception()
            raise

    def completions(self) -> Completions:
        """For a loop of one's own: calls that end on an eventfd."""
        if os.getpid() != self._pid:
            raise _errors.forked()
        return Completions(self._pool)

    # -- about

    def info(self) -> Info:
        """Asks the daemon."""
        out = ffi.new("struct peal_info *")
        p = self._begin()
        try:
            self._check(lib.peal_info(p, out))
        finally:
            self._end()
        return Info(
            out.nsid,
            out.key_max,
            out.value_max,
            out.capacity_bytes,
            out.used_bytes,
            bool(out.is_immutable),
            bool(out.has_lease),
            ffi.string(out.subsystem).decode(),
        )

    def stats(self) -> Stats:
        """Of this client; the daemon isn't asked."""
        out = ffi.new("struct peal_stats *")
        p = self._begin()
        try:
            lib.peal_stats(p, out)
        finally:
            self._end()
        return Stats(*(getattr(out, f.name) for f in dataclasses.fields(Stats)))


_uncleared = ffi.new_allocator(should_clear_after_alloc=False)


