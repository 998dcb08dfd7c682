# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's half of the connector and the worker's say to each other, once a step.

Plain data, pickled between processes. Values are numbered from the start of a request's tokens:
value i holds the tokens [i * value_tokens, (i + 1) * value_tokens).
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Look:
    """Look these up, and bring what is worth it into host memory."""

    req: str
    hashes: list[bytes]
    """The engine's hash of each value's last block, in order, which stands for all tokens up to
    there; behind it the digest of the adapter, if there is one."""


@dataclasses.dataclass
class Load:
    """Copy what a look-up has brought into the engine's blocks; the rest of it is let go."""

    req: str
    skip: int
    """Blocks at the start of the first value that the engine has."""
    blocks: list[int]


@dataclasses.dataclass
class Save:
    """Keep one value: these blocks hold it after this step."""

    req: str
    hash: bytes
    blocks: list[int]


@dataclasses.dataclass
class Step:
    """From scheduler to worker, with each step, also an empty one."""

    seed: bytes = b""
    """The first hash of the engine's chains."""
    epoch: bytes = b""
    """Another one makes all that was stored before unreachable; part of the salt."""
    prompt: int = 0
    """Tokens of prompts that are computed."""
    looks: list[Look] = dataclasses.field(default_factory=list)
    loads: list[Load] = dataclasses.field(default_factory=list)
    saves: list[Save] = dataclasses.field(default_factory=list)
    drops: list[str] = dataclasses.field(default_factory=list)
    """Requests whose look-up nobody waits for any more."""
    cancels: list[str] = dataclasses.field(default_factory=list)
    """Requests whose blocks the engine takes away with this step."""
    held: list[str] = dataclasses.field(default_factory=list)
    """Finished ones whose blocks it keeps until they are said to be copied."""


@dataclasses.dataclass
class Report:
    """From the workers to the scheduler; of several ranks the sum."""

    found: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Leading values that are in host memory and checked, in the rank that has fewest; how many
    ranks have answered."""
    copied: dict[str, int] = dataclasses.field(default_factory=dict)
    """Saves that don't need their blocks any more, of all ranks together."""

    def add(self, other: Report) -> None:
        for req, (values, ranks) in other.found.items():
            mine = self.found.get(req)
            self.found[req] = (min(values, mine[0]), ranks + mine[1]) if mine else (values, ranks)
        for req, nr in other.copied.items():
            self.copied[req] = self.copied.get(req, 0) + nr
