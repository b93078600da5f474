"""The four lock files by which processes that never meet agree about one server.

    start.lock    exclusive  whoever is starting or joining: one at a time
    users.lock    shared     every process that uses the server, until it lets go or dies
                  exclusive  the keeper, once nobody does
    keeper.lock   exclusive  the keeper, all its life
    server.lock   exclusive  the postmaster and all its children, who inherit it, and before
                             them the programs that make its data

A lock belongs to the *open file*, not to the process: a fork shares it, and it ends when the
last copy of the descriptor is closed. Hence nothing here asks whether a process id is alive (ids
are used again), and `users.lock` is let go by closing it, never by unlocking: an unlock in a
forked child would take the hold from its parent too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from wherry.errors import EmbeddedUnavailable

if sys.platform == "win32":
    raise EmbeddedUnavailable(["Windows: the embedded server needs Linux or macOS"])

import fcntl


def open_lock(path: Path) -> int:
    """Open a lock file, making it if need be; programs we start do not inherit it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_exclusive(fd: int) -> bool:
    """Take the lock alone, if nobody else has it."""
    return _try(fd, fcntl.LOCK_EX)


def try_shared(fd: int) -> bool:
    """Take the lock beside others, if nobody has it alone."""
    return _try(fd, fcntl.LOCK_SH)


def unlock(fd: int) -> None:
    """Give the lock back in every copy of the descriptor, forked ones included."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def is_held(path: Path) -> bool:
    """Tell whether somebody has the lock alone.

    To look is to hold it shared for a moment, so who wants it alone must try more than once.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_shared(fd)
    finally:
        os.close(fd)


def polls(*, within_seconds: float, every_seconds: float = 0.01) -> Iterator[float]:
    """Yield the seconds left, at once and then at intervals, until none are."""
    ends_at = time.monotonic() + within_seconds
    while (left := ends_at - time.monotonic()) > 0:
        yield left
        time.sleep(min(every_seconds, left))


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
