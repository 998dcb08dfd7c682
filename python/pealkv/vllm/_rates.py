# SPDX-License-Identifier: Apache-2.0
"""Load or recompute: how quick the tiers are and the engine is, learned as they run.

No clock and no I/O of its own. Rates are moving averages, newer ones counting more. A rate that was
never measured is a guess that favours loading, so that it gets measured; and after every RETRY
decisions against loading one goes the other way, since a tier that isn't read is never measured
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Optional

WEIGHT = 0.3
"""Of the newest measurement."""
RETRY = 64
LEAST_TOKENS = 128
OVERHEAD_S = 0.004
"""Of a load besides its bytes: three steps of an idle engine."""
GUESS_MEMORY = 4e9
GUESS_BELOW = 1e9


@dataclasses.dataclass
class Choice:
    """Of `values` that are there, how many to load, and why."""

    values: int
    load_s: float
    """What loading all that are there would take, seconds."""
    compute_s: float
    """What computing those would; 0: not known."""
    is_retry: bool = False


@dataclasses.dataclass
class Rates:
    """Of one worker. One thread at a time."""

    memory: Optional[float] = None
    """Bytes a second of loads from the daemon's memory; None: never measured."""
    below: Optional[float] = None
    """From a slower tier."""
    compute: Optional[float] = None
    """Seconds that the engine takes for a token of a prompt."""
    against: int = 0
    """Decisions not to load."""

    def seconds(self, nr_bytes: int, below_bytes: int) -> float:
        """What a load takes; `below_bytes` of it aren't in memory."""
        memory = (nr_bytes - below_bytes) / (self.memory or GUESS_MEMORY)
        return OVERHEAD_S + memory + below_bytes / (self.below or GUESS_BELOW)

    def learn(self, nr_bytes: int, below_bytes: int, took_s: float) -> None:
        """A load that took `took_s`. A mixed one teaches about the slower part."""
        if nr_bytes <= 0 or took_s <= 0:
            return
        if not below_bytes:
            self.memory = _mean(self.memory, nr_bytes / took_s)
            return
        rest = took_s - (nr_bytes - below_bytes) / (self.memory or GUESS_MEMORY)
        self.below = _mean(self.below, below_bytes / max(rest, took_s / 100))

    def learn_compute(self, tokens: int, took_s: float) -> None:
        """A step with so many tokens of prompts; a few say nothing."""
        if tokens >= LEAST_TOKENS and took_s > 0:
            self.compute = _mean(self.compute, took_s / tokens)

    def choose(
        self,
        present: int,
        in_memory: int,
        value_bytes: int,
        tokens: int,
        leading_in_memory: Callable[[], int],
    ) -> Choice:
        """How many leading values to load, so that all that are present are there soonest.

        Args:
            present: leading values that the store has, `in_memory` of them in its memory.
            tokens: of one.
            leading_in_memory: asked only when it matters.
        """
        compute_s = tokens * (self.compute or 0.0)
        below = (present - in_memory) * value_bytes
        load = self.seconds(present * value_bytes, below)
        compute = present * compute_s
        if not compute_s:
            return Choice(present, load, compute)
        ways = [(load, present), (compute, 0)]
        if 0 < in_memory < present and value_bytes / (self.below or GUESS_BELOW) > compute_s:
            nr = leading_in_memory()
            if nr:
                ways.append((self.seconds(nr * value_bytes, 0) + (present - nr) * compute_s, nr))
        _, values = min(ways)
        if values:
            return Choice(values, load, compute)
        self.against += 1
        if self.against % RETRY == 0:
            return Choice(present, load, compute, is_retry=True)
        return Choice(0, load, compute)


def _mean(old: Optional[float], new: float) -> float:
    return new if old is None else old + WEIGHT * (new - old)
