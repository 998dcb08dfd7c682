# SPDX-License-Identifier: Apache-2.0
"""Calls that are waited for elsewhere: futures, and an eventfd for loops of any kind."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import threading
from collections.abc import Callable
from typing import Any, Optional, ParamSpec, TypeVar

from . import _errors

P = ParamSpec("P")
T = TypeVar("T")

_os: Any = os  # eventfd is younger than some type stubs


class Pool:
    """Threads, made when the first call needs them. A call holds the GIL only at its ends."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise _errors.BadArgument(f"{threads} threads, expected 1 or more")
        self._threads = threads
        self._lock = threading.Lock()
        self._executor: Optional[concurrent.futures.ThreadPoolExecutor] = None
        self._is_closed = False

    def submit(
        self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._is_closed:
                raise _errors.closed()
            if self._executor is None:
                self._executor = concurrent.futures.ThreadPoolExecutor(
                    self._threads, thread_name_prefix="pealkv"
                )
            return self._executor.submit(call, *args, **kwargs)

    def close(self) -> None:
        """Calls that haven't begun are cancelled, those under way waited for."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


class Completions:
    """Calls by number, whose ends make one eventfd readable.

        done = client.completions()
        number = done.start(client.get_many, keys, buffers)
        select.select([done], [], [])
        for number, result, error in done.drain():
            ...

    Any thread may start and drain; each end is given out once.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._fd: int = _os.eventfd(0, _os.EFD_CLOEXEC | _os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._next = 0
        self._open: dict[int, concurrent.futures.Future[Any]] = {}
        self._ready: collections.deque[tuple[int, Any, Optional[BaseException]]] = (
            collections.deque()
        )

    def fileno(self) -> int:
        """Readable when there may be something to drain; it is non-blocking, and stays ours."""
        return self._fd

    def start(self, call: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> int:
        """The number of the call. The memory it names is in use until it is drained."""
        with self._lock:
            if self._fd < 0:
                raise _errors.closed()
            number = self._next
            self._next += 1
            future = self._open[number] = self._pool.submit(call, *args, **kwargs)
        future.add_done_callback(lambda f: self._end(number, f))
        return number

    def _end(self, number: int, future: concurrent.futures.Future[Any]) -> None:
        if future.cancelled():
            error: Optional[BaseException] = _errors.closed()
        else:
            error = future.exception()
        result = None if error else future.result()
        with self._lock:
            self._open.pop(number, None)
            self._ready.append((number, result, error))
            if self._fd >= 0:
                _os.eventfd_write(self._fd, 1)

    def drain(self) -> list[tuple[int, Any, Optional[BaseException]]]:
        """What has ended since: number, result, error (None: there was none). Never waits."""
        with self._lock:
            if self._fd < 0:
                raise _errors.closed()
            try:
                _os.eventfd_read(self._fd)
            except BlockingIOError:
                pass
            ended = list(self._ready)
            self._ready.clear()
        return ended

    def close(self) -> None:
        """Waits for what is under way; what is undrained is lost."""
        with self._lock:
            under_way = list(self._open.values())
        for future in under_way:
            future.cancel()
        concurrent.futures.wait(under_way)
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Completions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
