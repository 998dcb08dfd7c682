# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, and what to do about it.

A miss is no error: get() gives None, because recomputing is what a cache's user does anyway.
Everything else is a PealError with `key`, `reason` and `advice`.
"""

from __future__ import annotations

import errno as _errno
from typing import Optional


class PealError(Exception):
    """Base of all. `str()` is all of it: what failed, why, what to do.

    Attributes:
        key: that it was about; None where there is none.
        reason: what the library says; names keys, never values.
        advice: what to do.
        errno: a positive errno, as in peal.h.
    """

    advice = "report it, with the daemon's log"

    def __init__(
        self,
        reason: str,
        *,
        key: Optional[bytes] = None,
        errno: int = _errno.EIO,
        advice: Optional[str] = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.key = key
        self.errno = errno
        if advice is not None:
            self.advice = advice

    def __str__(self) -> str:
        return f"{self.reason} - {self.advice}"


class Timeout(PealError, TimeoutError):
    """The deadline. Memory that was passed in is the caller's again."""

    advice = "treat it as a miss; if it happens often, look at `peal top`, or give more time"


class Disconnected(PealError, ConnectionError):
    """There is no daemon, or it has gone. The library reconnects in the background."""

    advice = "treat it as a miss; later calls work again when the daemon is back"


class TooSmall(PealError, ValueError):
    """The buffer doesn't hold the value. `value_bytes`: its whole size, bytes."""

    advice = "give a buffer of value_bytes, or part=True"
    value_bytes = 0


class TooLarge(PealError, ValueError):
    """The value is larger than the namespace takes."""

    advice = "cut it: info().value_max says how much a value may have"


class NoSpace(PealError):
    """There is no room for the value, not even by evicting."""

    advice = "give the namespace more memory, or store less at once"


class Exists(PealError):
    """put(if_absent=True), and it is there."""

    advice = "nothing: the value that is there stays"


class Absent(PealError):
    """put(if_present=True), and it isn't there."""

    advice = "put it without if_present"


class BadArgument(PealError, ValueError):
    """An argument; the reason names it and what was expected."""

    advice = "correct the call"


class NotAllowed(PealError, PermissionError):
    """The daemon, or the system, doesn't let this user."""

    advice = "check owner and mode of the daemon's folder, and who you are"


class Busy(PealError):
    """A bound was hit: buffers, commands, leases."""

    advice = "try again when fewer calls are under way, or open with a larger buffer_bytes"


class Forked(PealError):
    """The handle is from before a fork()."""

    advice = "open() a client of its own in the child"


class Unsupported(PealError):
    """This daemon, or this kind of memory, doesn't have that."""

    advice = "do without it"


_KINDS: dict[int, type[PealError]] = {
    _errno.ETIMEDOUT: Timeout,
    _errno.ENOTCONN: Disconnected,
    _errno.ECONNREFUSED: Disconnected,
    _errno.ECONNRESET: Disconnected,
    _errno.EMSGSIZE: TooSmall,
    _errno.EFBIG: TooLarge,
    _errno.ENOSPC: NoSpace,
    _errno.EEXIST: Exists,
    _errno.ENOENT: Absent,
    _errno.EINVAL: BadArgument,
    _errno.EACCES: NotAllowed,
    _errno.EAGAIN: Busy,
    _errno.EPERM: Forked,
    _errno.EOPNOTSUPP: Unsupported,
}


def make(errno: int, reason: str, key: Optional[bytes] = None, value_bytes: int = 0) -> PealError:
    """The error of a positive errno."""
    error = _KINDS.get(errno, PealError)(reason, key=key, errno=errno)
    if isinstance(error, TooSmall):
        error.value_bytes = value_bytes
    return error


def closed() -> PealError:
    return BadArgument(
        "the client is closed",
        errno=_errno.EBADF,
        advice="open() another, and keep it as long as it is used",
    )


def forked() -> PealError:
    return Forked("this client was opened before fork(), in another process", errno=_errno.EPERM)
