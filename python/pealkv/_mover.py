# SPDX-License-Identifier: Apache-2.0
"""Values in and out for callers that never wait: threads that call the daemon, reads before writes.

A transfer is many engine keys and, of gets and puts, their buffers. It ends once, by a callback,
with a result for each key: until then its buffers are in use, after it never again, whatever the
daemon does. It has a timeout for each call of the daemon, so that one that stands still is seen
soon, and a deadline for the whole, which leaves it time for its bytes.
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

from . import _errors, keys
from ._batch import names
from ._client import Client
from ._link import Down, Link
from ._records import Hint

PART_BYTES = 1 << 20
"""A transfer of more bytes than that is shared by several threads."""
CALL_BYTES = 32 << 20
"""In one call of the daemon, unless one value alone has more."""
LEAST_BYTES_PER_S = 1e8
"""Slower than that, it isn't waited for."""
MOST_THREADS = 128

GET, PUT, SAVE, EXIST, DELETE, HINT = "get", "put", "save", "exist", "delete", "hint"
"""SAVE puts what isn't there yet; HINT asks for it to be brought into memory."""
_WRITES = (PUT, SAVE, DELETE)


def check_options(
    who: str, texts: Mapping[str, object], timeout_s: object, threads: object
) -> None:
    """What every engine's configuration says of a mover. Raises ValueError: which, and what was
    expected."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"{who}: {name} is {value!r}, expected a text")
    is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s <= 86400:  # type: ignore[operator]
        raise ValueError(f"{who}: timeout_s is {timeout_s!r}, expected seconds, more than 0")
    is_number = isinstance(threads, int) and not isinstance(threads, bool)
    if not is_number or not 1 <= threads <= MOST_THREADS:  # type: ignore[operator]
        raise ValueError(f"{who}: threads is {threads!r}, expected 1 to {MOST_THREADS}")


class Transfer:
    """`end(transfer)` is called by a thread of the mover's, and must neither wait nor raise."""

    def __init__(
        self,
        verb: str,
        engine_keys: Sequence[bytes],
        buffers: Sequence[Any],
        timeout: float,
        end: Callable[[Transfer], None],
    ) -> None:
        self.verb, self.engine_keys, self.buffers, self.end = verb, engine_keys, buffers, end
        self.results = [False] * len(engine_keys)
        """get: the value is there, of exactly that size, and checked, and of others the buffer's
        bytes are undefined; put, save, exist: it is there; delete: it is gone; hint: it is said."""
        self.error = ""
        """Why it isn't done, or not wholly; "" also when keys were merely absent."""
        self.sizes = [memoryview(b).nbytes for b in buffers]
        self.nr_bytes = sum(self.sizes)
        self.timeout = timeout
        self.began = time.monotonic()
        self.until = self.began + timeout + self.nr_bytes / LEAST_BYTES_PER_S
        self.parts = 1
        self.is_write = verb in _WRITES


_Part = tuple[Transfer, int, int]
_KEY, _TAG = keys.KEY_BYTES, keys.TAG_BYTES


class Mover:
    """Any thread may call. Writes never have the last of the threads.

    Args:
        link: with as many batches as there are threads, or reads wait for writes all the same.
        space: what names the values.
        most: parts of transfers that may wait for a thread, of reads and of writes each.
    """

    def __init__(
        self, link: Link, space: keys.Space, threads: int, most: int, log: logging.Logger
    ) -> None:
        self._link, self._space, self._most, self._log = link, space, most, log
        self._lock = threading.Condition(threading.Lock())
        self._reads: collections.deque[_Part] = collections.deque()
        self._writes: collections.deque[_Part] = collections.deque()
        self._nr_writing = 0
        self._max_writing = max(1, threads - 1)
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        try:
            for i in range(threads):
                thread = threading.Thread(target=self._work, name=f"pealkv-{i}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError:
            self.close()
            raise

    def rename(self, space: keys.Space) -> None:
        """What names the values of what begins from now on."""
        self._space = space

    def start(self, transfer: Transfer) -> None:
        """Never waits. What can't be begun - the daemon is away, too much is waiting - ends at
        once, in this thread."""
        parts = self._cut(transfer)
        queue = self._writes if transfer.is_write else self._reads
        with self._lock:
            if self._is_closed:
                raise _errors.closed()
            if not self._link.is_up:
                transfer.error = "the daemon is away"
            elif len(queue) + len(parts) > self._most:
                transfer.error = "too much is waiting"
            else:
                queue.extend(parts)
                self._lock.notify(len(parts))
                return
        self._end(transfer)

    def cancel(self) -> None:
        """What hasn't begun ends, undone."""
        with self._lock:
            dropped = [*self._reads, *self._writes]
            self._reads.clear()
            self._writes.clear()
        for transfer, _, _ in dropped:
            self._over(transfer, "cancelled")

    def close(self) -> None:
        """What hasn't begun is dropped, without an end; calls that are under way are waited for."""
        with self._lock:
            self._is_closed = True
            self._reads.clear()
            self._writes.clear()
            self._lock.notify_all()
        for thread in self._threads:
            thread.join()

    def _cut(self, t: Transfer) -> list[_Part]:
        """As many parts as threads, if that many are worth it."""
        nr = len(t.engine_keys)
        t.parts = max(1, min(self._max_writing, nr, t.nr_bytes // PART_BYTES))
        return [(t, nr * i // t.parts, nr * (i + 1) // t.parts) for i in range(t.parts)]

    def _end(self, transfer: Transfer) -> None:
        transfer.buffers = ()  # the caller may have them back
        try:
            transfer.end(transfer)
        except Exception:
            self._log.exception("Peal: the end of a transfer failed")

    def _over(self, transfer: Transfer, error: str) -> None:
        """A part of it is."""
        with self._lock:
            transfer.error = transfer.error or error
            transfer.parts -= 1
            is_over = not transfer.parts
        if is_over:
            self._end(transfer)

    # -- the threads

    def _take(self) -> Optional[_Part]:
        with self._lock:
            while not self._is_closed:
                if self._reads:
                    return self._reads.popleft()
                if self._writes and self._nr_writing < self._max_writing:
                    self._nr_writing += 1
                    return self._writes.popleft()
                self._lock.wait()
        return None

    def _work(self) -> None:
        while True:
            part = self._take()
            if part is None:
                return
            transfer, low, high = part
            error = ""
            try:
                self._run(transfer, low, high)
            except Down:
                error = "the daemon is away"
            except _errors.PealError as e:
                error = e.reason
                self._link.failed(e)
            except Exception as e:  # what is promised is an end
                error = f"{type(e).__name__}: {e}"
                self._log.exception("Peal: a transfer failed")
            if transfer.is_write:
                with self._lock:
                    self._nr_writing -= 1
                    if self._writes:
                        self._lock.notify()
            self._over(transfer, error)
            del transfer, part

    def _run(self, t: Transfer, low: int, high: int) -> None:
        """Sets the part's results; raises the worst error, which the others' results survive."""
        if low == high:
            return
        made, tags = names(self._space, t.engine_keys[low:high], keys.Type.BLOCK)
        failed: Optional[_errors.PealError] = None
        for at, end in _calls(t, low, high):
            if self._is_closed:
                failed = _worse(failed, _errors.closed())
                break
            part = slice((at - low) * _KEY, (end - low) * _KEY)
            part_tags = slice((at - low) * _TAG, (end - low) * _TAG)
            error = self._set(t, at, self._call(t, at, end, made[part], tags[part_tags]))
            failed = _worse(failed, error)
            if failed is not None and Link.is_down(failed):
                break
        if failed is not None:
            raise failed

    def _set(self, t: Transfer, at: int, got: Sequence[Any]) -> Optional[_errors.PealError]:
        """Results from `at` on; the worst error among them."""
        failed: Optional[_errors.PealError] = None
        for i, result in enumerate(got, at):
            if isinstance(result, _errors.PealError):
                # Another size is another layout: a miss.
                is_size = t.verb == GET and isinstance(result, _errors.TooSmall)
                failed = failed if is_size else _worse(failed, result)
            elif t.verb == GET:
                t.results[i] = result == t.sizes[i]
            elif t.verb == EXIST:
                t.results[i] = result
            else:
                t.results[i] = True
        return failed

    def _call(
        self, t: Transfer, low: int, high: int, made: bytes, tags: bytes
    ) -> Sequence[Any]:
        until = min(t.until, time.monotonic() + t.timeout)
        left = _left(until)
        client, buffers = self._link.client(), t.buffers[low:high]
        if t.verb == GET:
            return client.get_many(made, buffers, want_tags=tags, timeout=left)
        if t.verb == PUT:
            return client.put_many(made, buffers, tags=tags, timeout=left)
        if t.verb == SAVE:
            return self._save(client, buffers, made, tags, until)
        if t.verb == EXIST:
            return client.exist_many(made, timeout=left)
        if t.verb == HINT:
            return self._hint(client, made, left)
        return client.delete_many(made, timeout=left)

    def _hint(self, client: Client, made: bytes, timeout: float) -> Sequence[Any]:
        hints = [Hint(made[i : i + _KEY]) for i in range(0, len(made), _KEY)]
        try:
            client.hint(hints, timeout=timeout)
        except _errors.Unsupported:
            pass  # it was worth asking
        return [True] * len(hints)

    def _save(
        self, client: Client, buffers: Sequence[Any], made: bytes, tags: bytes, until: float
    ) -> Sequence[Any]:
        done: list[Any] = list(client.exist_many(made, timeout=_left(until)))
        new = [i for i, is_there in enumerate(done) if is_there is False]
        if not new:
            return done
        put = client.put_many(
            b"".join([made[_KEY * i : _KEY * i + _KEY] for i in new]),
            [buffers[i] for i in new],
            tags=b"".join([tags[_TAG * i : _TAG * i + _TAG] for i in new]),
            timeout=_left(until),
        )
        for i, result in zip(new, put):
            done[i] = result
        return done


def _left(until: float) -> float:
    """Seconds. Raises Busy: none."""
    left = until - time.monotonic()
    if left <= 0:
        raise _errors.Busy("it waited too long for a thread")
    return left


def _worse(
    one: Optional[_errors.PealError], other: Optional[_errors.PealError]
) -> Optional[_errors.PealError]:
    """The one to tell: the first, unless only the other says that the daemon is away."""
    if one is None or (other is not None and Link.is_down(other) and not Link.is_down(one)):
        return other
    return one


def _calls(t: Transfer, low: int, high: int) -> Iterator[tuple[int, int]]:
    """What of [low, high) goes into one call of the daemon each."""
    at, nr_bytes = low, 0
    for i, size in enumerate(t.sizes[low:high], low):
        if i > at and nr_bytes + size > CALL_BYTES:
            yield at, i
            at, nr_bytes = i, 0
        nr_bytes += size
    yield at, high
