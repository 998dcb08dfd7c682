# SPDX-License-Identifier: Apache-2.0
"""Memory that the daemon sees: the library's own, or the caller's mapping of a file.

A buffer says where it is; the kernel says of which file that is a mapping (/proc/self/maps); a
descriptor of that file is among this process' own, or is opened by its name when that is still the
same file.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from typing import TYPE_CHECKING, Any, Optional

from . import _errors
from ._peal import ffi, lib

if TYPE_CHECKING:
    from ._client import Client

_PAGE = 4096


class Memory:
    """Registered memory. `buffer` is all of it; memoryview(buffer)[a:b] goes into direct batches.

    release() waits until no direct batch uses it. It ends with the client at the latest.
    """

    def __init__(self, client: Client, m: Any, owner: Any) -> None:
        self._client = client
        self._m = m
        self._owner = owner
        nr = lib.peal_mem_bytes(m)
        self.nr_bytes: int = nr
        self._view: Optional[memoryview] = memoryview(ffi.buffer(lib.peal_mem_ptr(m), nr)).cast("B")

    @property
    def buffer(self) -> memoryview:
        """Writable bytes. Of alloc(): don't touch them after release() or the client's close()."""
        if self._view is None:
            raise _errors.BadArgument("this memory is released")
        return self._view

    def release(self) -> None:
        """Unregisters it; memory of alloc() is gone then."""
        if self._m is None:
            return
        p = self._client._begin()
        try:
            m, self._m, self._view = self._m, None, None
            self._client._check(lib.peal_mem_free(p, m))
            self._owner = None
        finally:
            self._client._end()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Mapping:
    """Whole pages of a file at an address; closes the descriptor when it was opened for this."""

    def __init__(self, start: int, nr_bytes: int, fd: int, offset: int, is_ours: bool) -> None:
        self.start, self.nr_bytes, self.fd, self.offset = start, nr_bytes, fd, offset
        self.is_ours = is_ours

    def __enter__(self) -> Mapping:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_ours:
            os.close(self.fd)


def _unsupported(what: str) -> _errors.PealError:
    return _errors.Unsupported(
        f"register: the memory is {what}, expected a shared, writable mapping of a file",
        errno=errno.EOPNOTSUPP,
        advice="use alloc(), a memfd or /dev/shm; batches without direct=True need nothing",
    )


def _open_same(path: str, device: int, inode: int) -> Optional[int]:
    """A descriptor of that very file, read and write; None: there is none to be had."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    st = os.fstat(fd)
    if (st.st_dev, st.st_ino) == (device, inode) and stat.S_ISREG(st.st_mode):
        return fd
    os.close(fd)
    return None


def _find_fd(path: str, device: int, inode: int) -> Optional[int]:
    for name in os.listdir("/proc/self/fd"):
        try:
            st = os.stat(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if (st.st_dev, st.st_ino) == (device, inode):
            fd = _open_same(f"/proc/self/fd/{name}", device, inode)
            if fd is not None:
                return fd
    return _open_same(path, device, inode) if path.startswith("/") else None


def find_mapping(at: int, nr: int, fd: int, offset: int) -> Mapping:
    """The pages that [at, at + nr) lies in."""
    if not nr:
        raise _errors.BadArgument("register: 0 bytes, expected 1 or more")
    if fd >= 0:
        return Mapping(at, nr, fd, offset, False)
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            span, modes, file_offset, device, inode, *path = line.split(maxsplit=5)
            low, high = (int(x, 16) for x in span.split("-"))
            if low <= at < high:
                break
        else:
            raise _unsupported("not mapped")
    if at + nr > high:
        raise _unsupported("of more than one mapping")
    name = path[0].rstrip("\n") if path else ""
    if inode == "0":
        raise _unsupported("private" if "p" in modes else "anonymous")
    if "w" not in modes or "s" not in modes:
        raise _unsupported(f"mapped {modes}")
    major, minor = (int(x, 16) for x in device.split(":"))
    found = _find_fd(name.removesuffix(" (deleted)"), os.makedev(major, minor), int(inode))
    if found is None:
        raise _unsupported(f"a mapping of {name}, of which there is no descriptor")
    start = at - at % mmap.PAGESIZE
    end = -(-(at + nr) // mmap.PAGESIZE) * mmap.PAGESIZE
    return Mapping(start, end - start, found, int(file_offset, 16) + start - low, True)
