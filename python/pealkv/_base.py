# SPDX-License-Identifier: Apache-2.0
"""A client's life: opened, used by many threads, closed, or left behind by a fork()."""

from __future__ import annotations

import os
import threading
from typing import Any, Optional, TypeVar

from . import _errors
from ._later import Pool
from ._peal import ffi, lib
from ._records import milliseconds

Self = TypeVar("Self", bound="Base")


def reason() -> str:
    text: bytes = ffi.string(lib.peal_errmsg())
    return text.decode(errors="replace")


class Base:
    """The handle. A call holds it between _begin() and _end(), and close() waits for those."""

    _idle: list[Any]

    def __init__(
        self,
        uri: str,
        *,
        timeout: float = 2.0,
        nsid: int = 0,
        buffer_bytes: int = 0,
        reconnect: bool = True,
        threads: int = 2,
        batches: int = 4,
    ) -> None:
        self.uri = uri
        self._pid = os.getpid()
        self._p: Any = None
        self._lock = threading.Condition(threading.Lock())
        self._users = 0
        self._local = threading.local()
        self._idle = []
        self._nr_queues = 0
        self._max_queues = batches
        opts = ffi.new("struct peal_opts *")
        opts.timeout_ms = milliseconds(timeout)
        opts.nsid = nsid
        opts.buffer_bytes = buffer_bytes
        opts.no_reconnect = not reconnect
        out = ffi.new("struct peal **")
        scheme, _, rest = uri.partition(":")
        path = f"{scheme}:{os.path.expanduser(rest)}".encode()
        err = lib.peal_open(path, opts, out)
        if err < 0:
            raise _errors.make(-err, reason())
        self._p = out[0]
        self._pool = Pool(threads)

    # -- life

    def close(self) -> None:
        """Waits for calls that are under way. Memory and leases of this client go with it."""
        if os.getpid() != self._pid:
            return  # nothing can be undone here: the threads that would do it aren't
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close()
        with self._lock:
            while self._users:
                self._lock.wait()
            p, self._p = self._p, None
            self._idle.clear()
        if p:
            lib.peal_close(p)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_p", None):
            self.close()

    def __repr__(self) -> str:
        return f"<pealkv.Client {self.uri}{'' if self._p else ', closed'}>"

    def _begin(self) -> Any:
        if os.getpid() != self._pid:  # before the lock, which somebody may have held at fork()
            raise _errors.forked()
        with self._lock:
            if not self._p:
                raise _errors.closed()
            self._users += 1
            return self._p

    def _end(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._lock.notify_all()

    def _check(self, n: int, key: Optional[bytes] = None, value_bytes: int = 0) -> int:
        if n < 0:
            raise _errors.make(-n, reason(), key, value_bytes)
        return n
