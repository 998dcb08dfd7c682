# SPDX-License-Identifier: Apache-2.0
"""An engine's way to the daemon: never in the way.

A call that fails because the daemon is dead, stopped, full of work or another version's takes the
link down: from then on every call says so at once, and a thread tries in the background until the
daemon answers. One log line says that it went, one that it is back.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Optional

import pealkv

RETRY_FIRST_S = 0.5
RETRY_MOST_S = 5.0
OF_ONE_CALL = (
    pealkv.BadArgument, pealkv.Busy, pealkv.Exists, pealkv.NoSpace, pealkv.TooLarge,
    pealkv.TooSmall,
)
"""Errors that say nothing of the daemon's health."""


class Down(Exception):
    """The link is down. No call was made."""


class Link:
    """Any thread may call. `client()` is what to talk to; `failed()` what to say when it fails.

    Args:
        batches: batches of calls that may be under way at once; who comes beyond waits for one of
            them, also beyond his own deadline.

    Raises:
        ValueError: the URI, which no daemon will ever answer to.
    """

    def __init__(
        self, uri: str, timeout: float, log: logging.Logger, batches: int = 4
    ) -> None:
        self.uri, self._timeout, self._log, self._batches = uri, timeout, log, batches
        self._lock = threading.Condition()
        self._client: Optional[pealkv.Client] = None
        self._is_up = False
        self._is_closed = False
        self.downs = 0
        """Times that it went down, the start without a daemon included."""
        self._thread: Optional[threading.Thread] = None
        try:
            self._client = self._open()
            self._is_up = True
        except pealkv.BadArgument as e:
            # A daemon of another version may say EINVAL, too; only what quotes the URI is of it.
            if not e.reason.startswith(("'", "no URI")):
                self._lost(e)
                return
            raise ValueError(e.reason) from None
        except pealkv.PealError as e:
            self._lost(e)

    def _open(self) -> pealkv.Client:
        return pealkv.open(self.uri, timeout=self._timeout, batches=self._batches)

    @property
    def is_up(self) -> bool:
        return self._is_up

    def client(self) -> pealkv.Client:
        """Raises Down."""
        client = self._client
        if not self._is_up or client is None:
            raise Down
        return client

    @staticmethod
    def is_down(error: pealkv.PealError) -> bool:
        """Whether it is an error of the daemon's, not of one value."""
        return not isinstance(error, OF_ONE_CALL)

    def failed(self, error: pealkv.PealError) -> None:
        """Takes the link down if that is an error of the daemon's, not of one value."""
        if self.is_down(error):
            self._lost(error)

    def _lost(self, error: pealkv.PealError) -> None:
        with self._lock:
            if self._is_closed or self._thread is not None:
                return
            self._is_up = False
            self.downs += 1
            self._thread = threading.Thread(target=self._retry, name="pealkv-retry", daemon=True)
            self._thread.start()
        self._log.warning(
            "Peal: %s: %s; all is computed until it is back", self.uri, error.reason
        )

    def _retry(self) -> None:
        began, wait = time.monotonic(), RETRY_FIRST_S
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._is_closed, wait)
                if self._is_closed:
                    return
            wait = min(2 * wait, RETRY_MOST_S)
            try:
                client = self._reach()
                break
            except pealkv.PealError:
                continue
        with self._lock:
            self._thread = None
            self._client = client
            if self._is_closed:
                return
            self._is_up = True
        gone = time.monotonic() - began
        self._log.info("Peal: %s: it is there after %.1f s", self.uri, gone)

    def _reach(self) -> pealkv.Client:
        """A client whose daemon answers; of a spawn: URI that starts another one if need be."""
        client = self._client
        if client is None:
            return self._open()
        try:
            client.info()
            return client
        except pealkv.Disconnected:
            if not self.uri.startswith("spawn:"):
                raise
        other = self._open()
        client.close()
        return other

    def close(self) -> None:
        """Waits for calls under way, each until its deadline at most."""
        with self._lock:
            self._is_closed = True
            self._is_up = False
            self._lock.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        if self._client is not None:
            self._client.close()
