# SPDX-License-Identifier: Apache-2.0
"""The scheduler's half: which tokens are promised, which blocks are filled and kept. It never talks
to the daemon and never waits.

A request that is new is looked up by the worker; until its answer the engine is told to ask again.
Then as many tokens are promised as lie, checked, in host memory, and the engine allocates their
blocks, which the worker fills between steps. Values are saved as soon as the step that completes
them is over.
"""

from __future__ import annotations

import enum
import logging
import os
import time
from collections.abc import Callable
from typing import Any, Optional

from ._config import Adapters, Options
from ._meta import Load, Look, Report, Save, Step

NEVER = 1 << 62


class State(enum.Enum):
    NEW = enum.auto()
    LOOKING = enum.auto()
    READY = enum.auto()
    """Its values are in host memory."""
    LOADING = enum.auto()
    OVER = enum.auto()
    """Nothing (more) is to be had for it."""


class _Request:
    def __init__(self, request: Any, adapter: Optional[bytes]) -> None:
        self.request = request
        self.adapter = adapter
        """Goes into its values' names; None: it isn't known, nothing of it is looked up or kept."""
        self.state = State.NEW
        self.first = 0
        """Value that the look-up began with."""
        self.values = 0
        """That it has brought."""
        self.ranks = 0
        """That have answered."""
        self.until = 0.0
        self.blocks: list[int] = []
        self.saved: Optional[int] = None
        """Values that needn't be saved any more; None: not scheduled yet."""
        self.under_way = 0
        """Saves that may still need the blocks, of all ranks together."""


class Scheduler:
    """One thread, the engine's."""

    def __init__(
        self,
        options: Options,
        value_blocks: int,
        ranks: int,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._log, self._clock = options, log, clock
        self._tokens = options.value_tokens
        self._value_blocks = value_blocks
        self._block_tokens = options.value_tokens // value_blocks
        self._ranks = ranks
        self._adapters = Adapters(time.time())
        self._strangers: set[str] = set()
        self._requests: dict[str, _Request] = {}
        self._epoch = b""
        self._step = Step()
        self.late = 0
        """Look-ups that were given up; see counts()."""

    # -- look-ups

    def matched(self, request: Any, computed: int) -> tuple[Optional[int], bool]:
        """Tokens behind `computed` that can be loaded; None: ask again. See the base class."""
        r = self._requests.get(request.request_id)
        if r is None or r.request is not request:
            r = self._requests[request.request_id] = self._request(request)
        if r.state is State.NEW:
            self._look(r, computed)
        if r.state is State.LOOKING and self._clock() > r.until:
            self.late += 1
            self._drop(r)
        if r.state is State.LOOKING:
            return None, False
        if r.state is not State.READY:
            return 0, False
        tokens = (r.first + r.values) * self._tokens - computed
        if tokens <= 0 or r.first * self._tokens > computed:
            self._drop(r)  # the engine has it by now, or has lost what lies before
            return 0, False
        return tokens, True

    def _request(self, request: Any) -> _Request:
        lora: Any = getattr(request, "lora_request", None)
        adapter = self._adapters.of(lora)
        if adapter is None and lora.lora_name not in self._strangers:
            self._strangers.add(lora.lora_name)
            self._log.warning(
                "Peal: adapter %s: %s isn't a folder that is older than this engine, so nobody can "
                "say which weights it had: its prompts are computed and not kept",
                lora.lora_name, lora.lora_path,
            )
        return _Request(request, adapter)

    def _name(self, r: _Request, value: int) -> bytes:
        """What stands for all tokens up to a value's end, and for what they were computed with."""
        block = r.request.block_hashes[(value + 1) * self._value_blocks - 1]
        return bytes(block) + (r.adapter or b"")

    def _look(self, r: _Request, computed: int) -> None:
        request, per = r.request, self._value_blocks
        r.first = computed // self._tokens
        # The last token is always computed: its output is wanted.
        last = min((request.num_tokens - 1) // self._tokens, len(request.block_hashes) // per)
        hashes = [self._name(r, i) for i in range(r.first, last)]
        if (
            not hashes
            or r.adapter is None
            or self._options.load == "never"
            or getattr(request, "skip_reading_prefix_cache", False)
        ):
            r.state = State.OVER
            return
        r.state, r.values, r.ranks = State.LOOKING, 0, 0
        # A MATCH and the loads after it have a deadline each.
        r.until = self._clock() + 2 * self._options.timeout_s + 1
        self._step.looks.append(Look(request.request_id, hashes))

    def _drop(self, r: _Request) -> None:
        r.state = State.OVER
        req = r.request.request_id
        self._step.looks = [look for look in self._step.looks if look.req != req]
        self._step.drops.append(req)

    def allocated(self, request: Any, blocks: Any, tokens: int) -> None:
        """The engine has allocated all blocks of a request; `tokens` of them are to be loaded."""
        r = self._requests.get(request.request_id)
        if r is None or r.state is not State.READY:
            return
        if not tokens:
            self._drop(r)
            return
        end = (r.first + r.values) * self._tokens
        begin = end - tokens
        ids = blocks.get_block_ids()[0]
        size = self._block_tokens
        self._step.loads.append(
            Load(
                request.request_id,
                (begin - r.first * self._tokens) // size,
                list(ids[begin // size : end // size]),
            )
        )
        r.state = State.LOADING

    # -- steps

    def build(self, output: Any, seed: bytes) -> Step:
        """What the worker has to do with this step."""
        prompt = 0
        for new in output.scheduled_new_reqs:
            r = self._requests.get(new.req_id)
            if r is not None:
                r.blocks = list(new.block_ids[0])
                prompt += self._scheduled(r, output, new.num_computed_tokens)
        cached = output.scheduled_cached_reqs
        for i, req in enumerate(cached.req_ids):
            r = self._requests.get(req)
            if r is None:
                continue
            ids = cached.new_block_ids[i]
            if req in cached.resumed_req_ids:
                r.blocks = list(ids[0])
            elif ids is not None:
                r.blocks.extend(ids[0])
            prompt += self._scheduled(r, output, cached.num_computed_tokens[i])
        for req in output.preempted_req_ids or ():
            r = self._requests.get(req)
            if r is not None:
                self._step.cancels.append(req)
                r.state, r.blocks = State.NEW, []
        step, self._step = self._step, Step()
        step.seed, step.epoch, step.prompt = seed, self._epoch, prompt
        return step

    def _scheduled(self, r: _Request, output: Any, computed: int) -> int:
        """Saves what this step completes; tokens of the prompt in it."""
        request = r.request
        req = request.request_id
        nr = output.num_scheduled_tokens[req]
        if r.saved is None:
            r.saved = computed // self._tokens
        if self._options.save and r.adapter is not None:
            hashes, per = request.block_hashes, self._value_blocks
            end = min((computed + nr) // self._tokens, len(hashes) // per)
            for i in range(r.saved, end):
                ids = r.blocks[i * per : (i + 1) * per]
                self._step.saves.append(Save(req, self._name(r, i), ids))
                r.under_way += self._ranks
            r.saved = max(r.saved, end)
        of_prompt = int(min(request.num_prompt_tokens, computed + nr)) - computed
        return max(0, of_prompt) if nr > 1 else 0

    def update(self, report: Optional[Report]) -> None:
        """What the workers say after a step."""
        if report is None:
            return
        for req, (values, ranks) in report.found.items():
            r = self._requests.get(req)
            if r is None or r.state is not State.LOOKING:
                continue
            r.values = min(values, r.values) if r.ranks else values
            r.ranks += ranks
            if r.ranks < self._ranks:
                continue
            if r.values:
                r.state = State.READY
            else:
                self._drop(r)
        for req, nr in report.copied.items():
            r = self._requests.get(req)
            if r is not None:
                r.under_way -= nr

    def finished(self, request: Any) -> bool:
        """True: its blocks have to stay until the worker says that they are copied."""
        r = self._requests.pop(request.request_id, None)
        if r is None:
            return False
        if r.state in (State.LOOKING, State.READY):
            self._drop(r)
        if r.under_way <= 0:
            return False
        self._step.held.append(request.request_id)
        return True

    def counts(self) -> dict[str, float]:
        """What was counted since the last call."""
        late, self.late = self.late, 0
        return {"lookups_late": late} if late else {}

    def reset(self) -> bool:
        """What was stored until now is never met again, also when it is under way."""
        self._epoch = os.urandom(16)
        for r in self._requests.values():
            if r.state in (State.LOOKING, State.READY):
                self._drop(r)
            r.saved = NEVER
        self._step.saves.clear()
        self._log.info("Peal: reset: what is stored stays, but isn't met any more")
        return True
