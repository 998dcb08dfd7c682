# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a block lie in the engine's KV cache, whatever its layout, and how they move.

A block's bytes are a few pages, one in each region: region r has the page of block b at
start + b * stride. A layer's tensor gives one region (blocks outermost) or several (keys and
values, or heads, outside of the blocks); pages that are neighbours in one block become one. In a
value all blocks of the first region come first, then those of the second: layer by layer, in the
order of the model.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional


@dataclasses.dataclass(frozen=True)
class Region:
    """Bytes, from the start of the storage that `tensor` lies in."""

    tensor: Any
    start: int
    stride: int
    page: int

    @property
    def storage(self) -> int:
        return int(self.tensor.untyped_storage().data_ptr())


def find(tensors: Iterable[Any], nr_blocks: int) -> list[Region]:
    """The regions of a model's layers, given in its order.

    Raises:
        ValueError: a tensor that isn't made of pages; says its shape.
    """
    found: list[Region] = []
    for tensor in tensors:
        for region in _of_tensor(tensor, nr_blocks):
            last = found[-1] if found else None
            if any(_is_same(region, r) for r in found):
                continue  # layers that share their cache
            if last is not None and _is_next(last, region):
                found[-1] = dataclasses.replace(last, page=last.page + region.page)
            else:
                found.append(region)
    if not found:
        raise ValueError("a model without any KV cache")
    return found


def _is_same(a: Region, b: Region) -> bool:
    return a.storage == b.storage and (a.start, a.stride) == (b.start, b.stride)


def _is_next(a: Region, b: Region) -> bool:
    """Page b lies behind page a, in each block."""
    return (
        a.storage == b.storage
        and a.stride == b.stride
        and a.start + a.page == b.start
        and a.page + b.page <= a.stride
    )


def _of_tensor(tensor: Any, nr_blocks: int) -> list[Region]:
    size, shape, strides = tensor.element_size(), tensor.shape, tensor.stride()
    dim = _block_dim(shape, nr_blocks)
    parts = shape[dim] // nr_blocks  # kernels may use smaller blocks than the engine counts
    others = [(s, n) for d, (s, n) in enumerate(zip(strides, shape)) if d != dim and n > 1]
    inner = sorted((s, n) for s, n in others if s < strides[dim])
    outer = [(s, n) for s, n in others if s >= strides[dim]]
    page = 1
    for s, n in inner:
        if s != page:
            break
        page *= n
    if page != math.prod(n for _, n in inner) or (parts > 1 and page != strides[dim]):
        raise ValueError(
            f"a KV cache of shape {tuple(shape)} and strides {tuple(strides)}: a block's part "
            "isn't contiguous"
        )
    base = tensor.storage_offset()
    return [
        Region(
            tensor,
            size * (base + sum(i * s for i, (s, _) in zip(at, outer))),
            size * strides[dim] * parts,
            size * page * parts,
        )
        for at in itertools.product(*(range(n) for _, n in outer))
    ]


def _block_dim(shape: Sequence[int], nr_blocks: int) -> int:
    for dim, nr in enumerate(shape[:2]):
        if nr >= nr_blocks and nr % nr_blocks == 0:
            return dim
    raise ValueError(f"a KV cache of shape {tuple(shape)}, no dimension of {nr_blocks} blocks")


def layout(
    tensors: dict[str, Any], regions: Sequence[Region], nr_blocks: int, block_tokens: int
) -> str:
    """Text that differs whenever the bytes of a value would mean something else: names, types,
    shapes and the order of the dimensions in memory, but not how many blocks there are."""
    lines = [f"block_tokens={block_tokens}"]
    for name, t in tensors.items():
        dim = _block_dim(t.shape, nr_blocks)
        shape = [n // nr_blocks if d == dim else n for d, n in enumerate(t.shape)]
        order = sorted(range(len(shape)), key=lambda d: -int(t.stride()[d]))
        lines.append(f"{name} {t.dtype} {shape} {dim} {order}")
    lines += [f"{r.page}" for r in regions]
    digest = hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
    page = sum(r.page for r in regions)
    return f"vllm:regions={len(regions)},block={page},{digest}"


class HostCopier:
    """For a KV cache in host memory: plain copies, without the GIL. Any thread may call."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._regions = [(r.storage + r.start, r.stride, r.page) for r in regions]
        self._keep = list(regions)

    def fence(self) -> None:
        """Work that the engine has begun is over when its call returns: nothing to wait for."""

    def mark(self) -> float:
        """A point in the engine's work; see seconds()."""
        return time.monotonic()

    def seconds(self, begin: float, end: float) -> Optional[float]:
        """That lie between two marks; None: the device isn't there yet."""
        return end - begin

    def gather(self, blocks: Sequence[int], value: Any, _fence: None) -> None:
        """Engine blocks into a value: the value's bytes are there when it returns."""
        at = value.data_ptr()
        for start, stride, page in self._regions:
            for block in blocks:
                ctypes.memmove(at, start + block * stride, page)
                at += page

    def scatter(self, value: Any, nr: int, skip: int, blocks: Sequence[int], _fence: None) -> None:
        """Blocks [skip, skip + len(blocks)) of a value of `nr` into the engine's `blocks`."""
        at = value.data_ptr()
        for start, stride, page in self._regions:
            for i, block in enumerate(blocks):
                ctypes.memmove(start + block * stride, at + (skip + i) * page, page)
            at += nr * page


class TorchCopier:
    """For a KV cache on a device: one thread, one stream, one value's room on the device.

    The host's values are pinned; one copy of a value's size crosses the bus, and pages are put
    together on the device. The engine's own stream is never waited for by the host, nor does it
    wait for this one.
    """

    def __init__(self, regions: Sequence[Region], blocks: int) -> None:
        import torch

        self._torch: Any = torch
        self._device = regions[0].tensor.device
        self._is_cuda = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if self._is_cuda else None
        word = 8 if all(x % 8 == 0 for r in regions for x in (r.start, r.stride, r.page)) else 1
        kind = torch.int64 if word == 8 else torch.uint8
        self._word, self._kind = word, kind
        self._views = []
        for r in regions:
            raw = torch.empty(0, dtype=kind, device=self._device)
            raw.set_(r.tensor.untyped_storage())
            rows = (raw.numel() * word - r.start - r.page) // r.stride + 1
            self._views.append(
                raw.as_strided(
                    (rows, r.page // word), (r.stride // word, 1), r.start // word
                )
            )
        self._pages = [r.page // word for r in regions]
        self._room = torch.empty(sum(self._pages) * blocks, dtype=kind, device=self._device)

    def fence(self) -> Any:
        """What the engine has given its stream until now."""
        return self.mark() if self._is_cuda else None

    def mark(self) -> Any:
        """As HostCopier's."""
        if not self._is_cuda:
            return time.monotonic()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self._device))
        return event

    def seconds(self, begin: Any, end: Any) -> Optional[float]:
        """As HostCopier's."""
        if not self._is_cuda:
            return float(end - begin)
        return float(begin.elapsed_time(end)) / 1e3 if end.query() else None

    def gather(self, blocks: Sequence[int], value: Any, fence: Any) -> None:
        """As HostCopier's; begins after the fence."""
        torch = self._torch
        with self._on_stream(fence):
            index = torch.tensor(list(blocks), dtype=torch.int64, device=self._device)
            for view, part in zip(self._views, self._parts(len(blocks))):
                torch.index_select(view, 0, index, out=part)
            value.view(self._kind).copy_(self._room[: value.numel() // self._word], True)
        self._wait()

    def scatter(self, value: Any, nr: int, skip: int, blocks: Sequence[int], fence: Any) -> None:
        """As HostCopier's; begins after the fence, over when it returns."""
        torch = self._torch
        with self._on_stream(fence):
            index = torch.tensor(list(blocks), dtype=torch.int64, device=self._device)
            self._room[: value.numel() // self._word].copy_(value.view(self._kind), True)
            for view, part in zip(self._views, self._parts(nr)):
                view.index_copy_(0, index, part[skip : skip + len(blocks)])
        self._wait()

    def _parts(self, nr: int) -> list[Any]:
        """Of the room, each region's."""
        parts, at = [], 0
        for page in self._pages:
            parts.append(self._room[at : at + nr * page].view(nr, page))
            at += nr * page
        return parts

    @contextlib.contextmanager
    def _on_stream(self, fence: Any) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        with self._torch.cuda.stream(self._stream):
            if fence is not None:
                self._stream.wait_event(fence)
            yield

    def _wait(self) -> None:
        if self._stream is not None:
            event = self._torch.cuda.Event()
            event.record(self._stream)
            event.synchronize()


def copier(regions: Sequence[Region], blocks: int) -> Any:
    """One for each thread that copies."""
    if regions[0].tensor.device.type == "cpu":
        return HostCopier(regions)
    return TorchCopier(regions, blocks)


class Slots:
    """Host memory for `nr` values, taken and given back by number. Any thread; never waits."""

    def __init__(self, nr: int, value_bytes: int, is_pinned: bool) -> None:
        import torch

        self.nr = nr
        self._memory = torch.empty((nr, value_bytes), dtype=torch.uint8, pin_memory=is_pinned)
        self._free = list(range(nr))

    def take(self) -> Optional[int]:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give(self, slot: int) -> None:
        self._free.append(slot)

    @property
    def nr_free(self) -> int:
        return len(self._free)

    def memory(self, slot: int) -> Any:
        """Its bytes, a contiguous tensor."""
        return self._memory[slot]
