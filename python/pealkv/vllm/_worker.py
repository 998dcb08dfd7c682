# SPDX-License-Identifier: Apache-2.0
"""The worker's half: where the engine's blocks are, it moves values between them and the daemon.

Threads. The engine's own calls begin(), load(), save(), finished() and report(), once a step, and
they never wait for the daemon. `lookers` ask the daemon what it has, `movers` carry single values,
one `saver` copies out of the engine's blocks, one `loader` into them.

Whose memory. The daemon never learns of the engine's blocks, nor of ours: values go through
libpeal's own buffers and leases, and each call has a deadline. A value is promised to the scheduler
when its bytes are in a slot of ours and have passed their check.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import pealkv
from pealkv import keys

from . import _pages
from ._config import Options
from ._meta import Load, Look, Report, Save, Step
from ._rates import Choice, Rates
from .._link import Down, Link

SpaceOf = Callable[[str, str, bytes, bytes], keys.Space]
"""layout, dtype, seed, epoch -> what names the values."""


class _Looked:
    """A look-up, from its start until its slots are given back."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.is_dropped = False


@dataclasses.dataclass(eq=False)
class _Copy:
    """A save, until it doesn't need the engine's blocks any more."""

    save: Save
    name: tuple[bytes, bytes]
    fence: Any
    is_cancelled: bool = False


class Worker:
    """Of one rank."""

    def __init__(
        self, options: Options, value_blocks: int, space_of: SpaceOf, log: logging.Logger
    ) -> None:
        self._options, self._log = options, log
        self._value_blocks = value_blocks
        self._space_of = space_of
        self._space: Optional[keys.Space] = None
        self._epoch = b""
        self._lock = threading.Condition()
        self._looked: dict[str, _Looked] = {}
        self._pending: dict[str, list[_Copy]] = {}
        self._copying: Optional[_Copy] = None
        self._held: set[str] = set()
        self._received: set[str] = set()
        self._invalid: set[int] = set()
        self._report = Report()
        self._counts: dict[str, float] = {}
        self._rates = Rates()
        self._began: Any = None
        self._steps: list[tuple[Any, Any, int]] = []
        self._said = 0.0

    # -- the start

    def register(self, kv_caches: dict[str, Any], nr_blocks: int, block_tokens: int) -> None:
        """The engine's cache is there: its memory is found, ours is made, the daemon is opened.

        Raises:
            ValueError: a layout that isn't made of pages.
        """
        self._regions = _pages.find(kv_caches.values(), nr_blocks)
        self._layout = _pages.layout(kv_caches, self._regions, nr_blocks, block_tokens)
        dtypes = sorted({str(t.dtype).removeprefix("torch.") for t in kv_caches.values()})
        self._dtype = "+".join(dtypes)
        self.value_bytes = self._value_blocks * sum(r.page for r in self._regions)
        is_pinned = self._regions[0].tensor.device.type == "cuda"
        self._slots = _pages.Slots(
            max(1, self._options.load_bytes // self.value_bytes), self.value_bytes, is_pinned
        )
        self._out = _pages.Slots(
            max(2, self._options.save_bytes // self.value_bytes), self.value_bytes, is_pinned
        )
        self._save_copier = _pages.copier(self._regions, self._value_blocks)
        self._load_copier = _pages.copier(self._regions, self._value_blocks)
        self._link = Link(self._options.uri, self._options.timeout_s, self._log)
        pool = concurrent.futures.ThreadPoolExecutor
        self._lookers = pool(4, thread_name_prefix="pealkv-look")
        self._movers = pool(self._options.threads, thread_name_prefix="pealkv-move")
        self._loads: queue.SimpleQueue[Optional[tuple[Load, Any]]] = queue.SimpleQueue()
        self._saves: queue.SimpleQueue[Optional[_Copy]] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._loader, name="pealkv-load", daemon=True),
            threading.Thread(target=self._saver, name="pealkv-save", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._log.info(
            "Peal: %s, values of %d tokens and %d bytes, %s, %d to load and %d to save in memory",
            self._options.uri, self._value_blocks * block_tokens, self.value_bytes, self._layout,
            self._slots.nr, self._out.nr,
        )

    # -- once a step, by the engine

    def begin(self, step: Step) -> None:
        """Before the step's work: blocks that it takes away aren't read any more when this returns.
        Look-ups begin."""
        self._learn_compute()
        if step.cancels:
            self._cancel(set(step.cancels))
        with self._lock:
            self._held.update(step.held)
        for req in step.drops:
            self._drop(req)
        space = self._space
        if space is None or (space.seed, self._epoch) != (step.seed, step.epoch):
            self._epoch = step.epoch
            space = self._space = self._space_of(
                self._layout, self._dtype, step.seed, step.epoch
            )
        for look in step.looks:
            with self._lock:
                looked = self._looked[look.req] = _Looked()
            self._lookers.submit(self._look, look, looked, space)
        self._began = self._save_copier.mark() if step.prompt else None

    def load(self, step: Step) -> None:
        """Before the step's work or after it, also when there is none: into blocks that it doesn't
        touch."""
        for load in step.loads:
            self._loads.put((load, self._load_copier.fence()))

    def save(self, step: Step) -> None:
        """After it: blocks are copied as soon as the device has done what it was given."""
        if self._began is not None:
            self._steps.append((self._began, self._save_copier.mark(), step.prompt))
            self._began = None
        if not step.saves:
            return
        assert self._space is not None
        fence = self._save_copier.fence()
        for save in step.saves:
            copy = _Copy(save, self._space.name(save.hash), fence)
            with self._lock:
                self._pending.setdefault(save.req, []).append(copy)
            self._saves.put(copy)

    def _learn_compute(self) -> None:
        while self._steps:
            begin, end, tokens = self._steps[0]
            took = self._save_copier.seconds(begin, end)
            if took is None:
                return
            self._steps.pop(0)
            with self._lock:
                self._rates.learn_compute(tokens, took)

    def finished(self) -> tuple[set[str], set[str]]:
        """Requests whose blocks may be freed, and those whose load is over. Each once."""
        with self._lock:
            sent = {req for req in self._held if req not in self._pending}
            self._held -= sent
            received, self._received = self._received, set()
        return sent, received

    def invalid(self) -> set[int]:
        """Blocks that a load should have filled and hasn't."""
        with self._lock:
            invalid, self._invalid = self._invalid, set()
        return invalid

    def report(self) -> Optional[Report]:
        with self._lock:
            report, self._report = self._report, Report()
        return report if report.found or report.copied else None

    def counts(self) -> dict[str, float]:
        """What was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def close(self) -> None:
        """Saves that are copied or queued are finished if that takes no longer than a call."""
        if not hasattr(self, "_link"):
            return
        until = time.monotonic() + self._options.timeout_s
        with self._lock:
            self._lock.wait_for(lambda: not self._pending, self._options.timeout_s)
        while self._out.nr_free < self._out.nr and time.monotonic() < until:
            time.sleep(0.01)
        self._loads.put(None)
        self._saves.put(None)
        self._lookers.shutdown(wait=False, cancel_futures=True)
        self._movers.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            thread.join()
        self._link.close()

    # -- look-ups

    def _count(self, **counts: float) -> None:
        with self._lock:
            for name, nr in counts.items():
                if nr:
                    self._counts[name] = self._counts.get(name, 0) + nr

    def _failed(self, error: pealkv.PealError) -> None:
        self._count(errors=1, **({"timeouts": 1} if isinstance(error, pealkv.Timeout) else {}))
        self._link.failed(error)

    def _drop(self, req: str) -> None:
        with self._lock:
            looked = self._looked.pop(req, None)
            if looked is None:
                return
            looked.is_dropped = True  # its thread gives back what it takes from now on
            slots, looked.slots = looked.slots, []
        for slot in slots:
            self._slots.give(slot)

    def _look(self, look: Look, looked: _Looked, space: keys.Space) -> None:
        slots: list[int] = []
        try:
            if not looked.is_dropped:
                slots = self._fetch(looked, [space.name(h) for h in look.hashes])
        except Down:
            self._count(lookups_down=1)
        except pealkv.PealError as e:
            self._failed(e)
        except Exception:
            self._log.exception("Peal: a look-up failed, its prompt is computed")
        with self._lock:
            if not looked.is_dropped:
                looked.slots, slots = slots, []
                self._report.found[look.req] = (len(looked.slots), 1)
        for slot in slots:
            self._slots.give(slot)

    def _fetch(self, looked: _Looked, names: list[tuple[bytes, bytes]]) -> list[int]:
        """Slots of the leading values that are there, checked."""
        client = self._link.client()
        found = client.match([key for key, _ in names])
        self._count(lookups=1, values_wanted=len(names), values_present=found.present)
        if not found.present:
            return []
        choice = self._choose(client, names, found)
        slots: list[int] = []
        while len(slots) < choice.values:
            slot = self._slots.take()
            if slot is None:
                self._count(values_no_room=choice.values - len(slots))
                break
            slots.append(slot)
        began = time.monotonic()
        until = began + self._options.timeout_s
        gets = [
            self._movers.submit(self._get, client, name, slot, until, looked)
            for name, slot in zip(names, slots)
        ]
        got = [get.result() for get in gets]
        nr = got.index(False) if False in got else len(got)
        for slot in slots[nr:]:
            self._slots.give(slot)
        took = time.monotonic() - began
        self._count(values_lost=len(got) - nr, values_loaded=nr, bytes_loaded=nr * self.value_bytes,
                    load_seconds=took)
        if nr and nr == len(got):
            below = max(0, nr - found.in_memory) * self.value_bytes
            with self._lock:
                self._rates.learn(nr * self.value_bytes, below, took)
        return slots[:nr]

    def _choose(
        self, client: pealkv.Client, names: list[tuple[bytes, bytes]], found: pealkv.Match
    ) -> Choice:
        if self._options.load == "always":
            return Choice(found.present, 0, 0)

        def leading() -> int:
            low, high = 0, found.present
            while low < high:
                middle = (low + high + 1) // 2
                m = client.match([key for key, _ in names[:middle]])
                low, high = (middle, high) if m.in_memory == middle else (low, middle - 1)
            return low

        with self._lock:
            rates = dataclasses.replace(self._rates)
        choice = rates.choose(
            found.present, found.in_memory, self.value_bytes, self._options.value_tokens, leading
        )
        with self._lock:
            self._rates.against = rates.against
        computed = found.present - choice.values
        self._count(values_computed=computed, load_retries=choice.is_retry)
        now = time.monotonic()
        say = self._log.debug
        if computed and now - self._said > 10:
            self._said, say = now, self._log.info
        say(
            "Peal: of %d values that are there (%d in memory) %d are loaded: loading all takes "
            "%.1f ms, computing %.1f ms", found.present, found.in_memory, choice.values,
            1e3 * choice.load_s, 1e3 * choice.compute_s,
        )
        return choice

    def _get(
        self, client: pealkv.Client, name: tuple[bytes, bytes], slot: int, until: float,
        looked: _Looked,
    ) -> bool:
        left = until - time.monotonic()
        if left <= 0 or looked.is_dropped or not self._link.is_up:
            return False
        key, tag = name
        try:
            nr = client.get_into(key, self._slots.memory(slot), want_tag=tag, timeout=left)
        except pealkv.PealError as e:
            self._failed(e)
            return False
        except Exception:
            self._log.exception("Peal: a load failed")
            return False
        return nr == self.value_bytes

    # -- into the engine's blocks

    def _loader(self) -> None:
        for load, fence in iter(self._loads.get, None):
            with self._lock:
                looked = self._looked.pop(load.req, None)
            slots = looked.slots if looked is not None else []
            try:
                self._scatter(load, slots, fence)
            except Exception:
                self._log.exception("Peal: a load failed, its prompt is computed")
                with self._lock:
                    self._invalid.update(load.blocks)
            for slot in slots:
                self._slots.give(slot)
            with self._lock:
                self._received.add(load.req)

    def _scatter(self, load: Load, slots: list[int], fence: Any) -> None:
        nr, skip, blocks = self._value_blocks, load.skip, load.blocks
        if skip + len(blocks) > nr * len(slots):
            raise RuntimeError(f"{len(slots)} values for {len(blocks)} blocks")
        for slot in slots:
            part, blocks = blocks[: nr - skip], blocks[nr - skip :]
            if part:
                self._load_copier.scatter(self._slots.memory(slot), nr, skip, part, fence)
            skip = 0

    # -- out of them

    def _cancel(self, reqs: set[str]) -> None:
        with self._lock:
            for req in reqs:
                for copy in self._pending.get(req, ()):
                    copy.is_cancelled = True
            self._lock.wait_for(
                lambda: self._copying is None or self._copying.save.req not in reqs
            )

    def _copied(self, copy: _Copy) -> None:
        """The engine may have its blocks back."""
        req = copy.save.req
        with self._lock:
            if self._copying is copy:
                self._copying = None
            copies = self._pending.get(req, [])
            if copy not in copies:
                return
            copies.remove(copy)
            if not copies:
                del self._pending[req]
            self._report.copied[req] = self._report.copied.get(req, 0) + 1
            self._lock.notify_all()

    def _saver(self) -> None:
        while True:
            copies = [self._saves.get()]
            while len(copies) < 64 and not self._saves.empty():
                copies.append(self._saves.get())
            wanted = [c for c in copies if c is not None]
            try:
                self._save(wanted)
            except Exception:
                self._log.exception("Peal: saves failed")
            for copy in wanted:
                self._copied(copy)  # whatever happened, the engine gets its blocks back
            if len(wanted) < len(copies):
                return

    def _save(self, copies: list[_Copy]) -> None:
        """Those that the daemon hasn't are copied and put on their way."""
        try:
            client = self._link.client()
            there = client.exist_many([c.name[0] for c in copies]) if copies else []
            for e in there:
                if isinstance(e, pealkv.PealError):
                    raise e
        except (Down, pealkv.PealError) as e:
            if isinstance(e, pealkv.PealError):
                self._failed(e)
            self._count(saves_dropped=len(copies))
            for copy in copies:
                self._copied(copy)
            return
        for copy, is_there in zip(copies, there):
            if is_there:
                self._count(saves_present=1)
                self._copied(copy)
            else:
                self._save_one(client, copy)

    def _save_one(self, client: pealkv.Client, copy: _Copy) -> None:
        slot = self._take_out()
        if slot is not None and self._gather(copy, slot):
            self._copied(copy)
            self._movers.submit(self._put, client, copy.name, slot)
            return
        self._copied(copy)
        self._count(saves_dropped=1)
        if slot is not None:
            self._out.give(slot)

    def _gather(self, copy: _Copy, slot: int) -> bool:
        """Whether the value is in the slot."""
        with self._lock:
            if copy.is_cancelled:
                return False
            self._copying = copy
        try:
            self._save_copier.gather(copy.save.blocks, self._out.memory(slot), copy.fence)
        except Exception:
            self._log.exception("Peal: a save failed")
            return False
        return True

    def _take_out(self) -> Optional[int]:
        """Waits a little for puts that are under way; blocks of the engine wait as long."""
        until = time.monotonic() + self._options.save_wait_s
        while True:
            slot = self._out.take()
            if slot is not None or not self._link.is_up or time.monotonic() > until:
                return slot
            time.sleep(0.002)

    def _put(self, client: pealkv.Client, name: tuple[bytes, bytes], slot: int) -> None:
        key, tag = name
        try:
            if self._link.is_up:
                client.put(key, self._out.memory(slot), tag=tag)
                self._count(saves=1, bytes_saved=self.value_bytes)
            else:
                self._count(saves_dropped=1)
        except pealkv.PealError as e:
            self._count(saves_dropped=1)
            self._failed(e)
        except Exception:
            self._log.exception("Peal: a save failed")
        finally:
            self._out.give(slot)
