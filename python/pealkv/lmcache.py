# SPDX-License-Identifier: Apache-2.0
"""LMCache keeps what its host memory gives up in Peal: an L2 adapter of type native_plugin.

    lmcache server --l1-size-gb 20 --l2-adapter '{"type": "native_plugin",
      "module_path": "pealkv.lmcache", "class_name": "PealClient", "adapter_params":
      {"uri": "spawn:~/.cache/pealkv?dram=8G&ssd=100G", "revision": "8ae1... bfloat16"}}'

LMCache calls submit_*() from threads of its own and never waits in them; one eventfd says that
something has ended, and drain_completions() what. Here a few threads do the calls, reads before
writes. Every submission ends once, with a result for each key, whatever the daemon does: until then
its buffers are in use, after it never again. A daemon that is dead, stopped or full costs hits; who
comes while it is away is told so at once.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

from . import _errors, _mover, keys
from ._link import Down, Link
from ._mover import Mover, Transfer

__all__ = ["PealClient"]

MAX_WAITING = 4096
"""Parts of submissions that may wait for a thread; others end at once, undone."""

Completion = tuple[int, bool, str, Optional[list[bool]]]

_os: Any = os  # eventfd is younger than some type stubs


class PealClient:
    """What LMCache's native_plugin wants of a client; any thread may call anything.

    Args:
        uri: of pealkv.open().
        revision: what LMCache's own keys leave out and yet decides the bytes: which weights, type
            and layout of the cache, as in "8ae1c03 bfloat16". Another one never meets these
            values.
        salt: a tenant's, the same way. A request's cache_salt is in LMCache's keys.
        timeout_s: of each call of the daemon. A submission has a second more for each 100 MB.
        threads: that call the daemon, 1 to 128; writes never have the last one.

    Raises:
        ValueError: an argument, and what was expected.
    """

    def __init__(
        self,
        uri: str = "",
        revision: str = "",
        salt: str = "",
        timeout_s: float = 2.0,
        threads: int = 4,
    ) -> None:
        for name, value, want in (
            ("uri", uri, "where the daemon is, as in spawn:~/.cache/pealkv?dram=8G"),
            ("revision", revision, "which weights, in which type, as in '8ae1c03 bfloat16'"),
        ):
            if not isinstance(value, str) or not value:
                raise ValueError(f"adapter_params: {name} is missing, expected {want}")
        _mover.check_options("adapter_params", {"salt": salt}, timeout_s, threads)
        self._space = keys.Space(
            model="LMCache", revision=revision, dtype="LMCache", layout="LMCache", block_tokens=1,
            hash="LMCache", salt=salt.encode(),
        )
        self._timeout, self._pid = float(timeout_s), os.getpid()
        self._lock = threading.Lock()
        self._next = 0
        self._ended: list[Completion] = []
        self._counts: dict[str, int] = collections.defaultdict(int)
        self._log = _logger()
        with contextlib.ExitStack() as undo:
            self._fd: int = _os.eventfd(0, _os.EFD_CLOEXEC | _os.EFD_NONBLOCK)
            undo.callback(os.close, self._fd)
            self._link = Link(uri, self._timeout, self._log, threads)
            undo.callback(self._link.close)
            self._mover = Mover(self._link, self._space, threads, MAX_WAITING, self._log)
            undo.pop_all()
        self._say_capacity()

    def _say_capacity(self) -> None:
        try:
            capacity, used = self.capacity()
        except (Down, _errors.PealError):
            return
        self._log.info(
            "Peal: %s has room for %.1f GiB, of which %.1f are used, and evicts by itself; "
            "max_capacity_gb is needed only to give LMCache less", self._link.uri,
            capacity / (1 << 30), used / (1 << 30),
        )

    # -- what LMCache calls

    def event_fd(self) -> int:
        """Readable when there is something to drain; non-blocking, and stays ours."""
        return self._fd

    def submit_batch_get(self, keys: Sequence[str], bufs: Sequence[Any]) -> int:
        """Into the buffers. A key's result is true only when its value, of exactly that size, is
        there and has passed its check; of others the buffer's bytes are undefined."""
        return self._submit(_mover.GET, keys, bufs)

    def submit_batch_set(self, keys: Sequence[str], bufs: Sequence[Any]) -> int:
        """Out of the buffers."""
        return self._submit(_mover.PUT, keys, bufs)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(_mover.EXIST, keys, ())

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """A key's result is true when it is gone, also when it was gone before: LMCache takes off
        its books only what is told so, and Peal may have evicted it meanwhile."""
        return self._submit(_mover.DELETE, keys, ())

    def drain_completions(self) -> list[Completion]:
        """What has ended since: number, whether all went well, what didn't, each key's result.
        Never waits, never raises."""
        with self._lock:
            if self._fd >= 0:
                try:
                    _os.eventfd_read(self._fd)
                except BlockingIOError:
                    pass
            ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """What hasn't begun is dropped; what is under way is waited for, `timeout_s` at most. No
        buffer is touched after it."""
        if os.getpid() != self._pid:
            return
        self._mover.close()
        self._link.close()
        with self._lock:
            self._ended.clear()
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # -- what it doesn't

    def capacity(self) -> tuple[int, int]:
        """Bytes that the daemon's namespace holds, and that are used. Asks the daemon; raises
        Down when it is away."""
        info = self._link.client().info()
        return info.capacity_bytes, info.used_bytes

    def counts(self) -> dict[str, int]:
        """Since the start: keys of each verb (get, put, exist, delete), and of them `_ok`;
        `failed`: submissions with an error, of which some keys may be done; an absent key is no
        error."""
        with self._lock:
            return dict(self._counts)

    # -- submissions

    def _submit(self, verb: str, names: Sequence[str], buffers: Sequence[Any]) -> int:
        if verb in (_mover.GET, _mover.PUT) and len(names) != len(buffers):
            raise ValueError(f"{len(names)} keys and {len(buffers)} buffers, expected as many")
        if os.getpid() != self._pid:
            raise _errors.forked()
        with self._lock:
            number = self._next
            self._next += 1

        def end(transfer: Transfer) -> None:
            self._end(number, transfer)

        texts = [name.encode() for name in names]
        self._mover.start(Transfer(verb, texts, buffers, self._timeout, end))
        return number

    def _end(self, number: int, t: Transfer) -> None:
        good, nr, error = sum(t.results), len(t.results), t.error
        if t.verb in (_mover.EXIST, _mover.DELETE):
            is_ok = not error
        else:
            # Older versions take "ok" for all keys of a load.
            is_ok = good == nr
            error = error if is_ok or error else f"{nr - good} of {nr} keys are not there"
        with self._lock:
            self._counts[t.verb] += nr
            self._counts[f"{t.verb}_ok"] += good
            self._counts["failed"] += bool(t.error)
            self._ended.append((number, is_ok, error, t.results))
            if self._fd >= 0:
                _os.eventfd_write(self._fd, 1)


def _logger() -> logging.Logger:
    """LMCache's own kind when it is LMCache that has loaded us."""
    made = sys.modules.get("lmcache.logging")
    init: Callable[[str], logging.Logger] = getattr(made, "init_logger", logging.getLogger)
    return init(__name__)
