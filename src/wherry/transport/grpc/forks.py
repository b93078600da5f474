"""Forks beside gRPC: a child shall neither hang nor crash in what its parent had open.

gRPC lets go of its threads before a fork and starts them again on both sides, but only while it is
at rest. So it is never shut down once it was needed, a fork waits for the short calls of other
threads, and they for it. A child touches nothing that it inherited, not even to close it: that
would wait for threads that it has not.

Awaited channels have a thread that gRPC does not start again; a child of a process that had one
open can only make blocking calls, and is told so.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, TypeVar

import grpc
import grpc.aio

from wherry.errors import ConfigError

C = TypeVar("C", bound=grpc.Channel | grpc.aio.Channel)

# A fork waits no longer for calls: one that hangs must not hang the fork.
_LONGEST_WAIT_SECONDS: Final = 2.0

# While a channel is there gRPC does not end its threads, and none forks amid that. It connects
# nowhere.
_held = grpc.insecure_channel("dns:///localhost:1")


class _Gate:
    """How many forks go on, the calls under way by thread, and who waits for the forks."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.forks = 0
        self.calls: Counter[int] = Counter()
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def leave(self, thread: int) -> None:
        """End a call of *thread*, whoever it is that ends it."""
        with self.changed:
            self.calls[thread] -= 1
            if not self.calls[thread]:
                del self.calls[thread]
            self.changed.notify_all()

    def is_quiet(self) -> bool:
        """Whether no other thread has a call under way; our own cannot end while we fork."""
        return self.calls.total() == self.calls[threading.get_ident()]


_gate = _Gate()
_channels: Final[weakref.WeakSet[grpc.Channel | grpc.aio.Channel]] = weakref.WeakSet()
_lost_awaited = False


@contextmanager
def under_way() -> Generator[None, None, None]:
    """Keep others from forking inside, for a while; waits for a fork that goes on."""
    gate, thread = _gate, threading.get_ident()
    with gate.changed:
        # No longer than a fork waits for us: another hook of it may hang.
        gate.changed.wait_for(lambda: not gate.forks, _LONGEST_WAIT_SECONDS)
        gate.calls[thread] += 1
    try:
        yield
    finally:
        gate.leave(thread)


@asynccontextmanager
async def aunder_way() -> AsyncGenerator[None, None]:
    """Do the same, and let the loop go on meanwhile."""
    gate, thread = _gate, threading.get_ident()
    while True:
        with gate.changed:
            if not gate.forks:
                gate.calls[thread] += 1
                break
            over = asyncio.get_running_loop().create_future()
            gate.waiting.append((over.get_loop(), over))
        await over
    try:
        yield
    finally:
        gate.leave(thread)


def refuse_awaited() -> None:
    """Raise ConfigError where an awaited channel would wait for ever."""
    if _lost_awaited:
        raise ConfigError(
            "this process was forked from one that had an awaited connection to a server open,"
            " beside which gRPC can make no other here: close the App before it forks"
            " (`await app.aclose()`), or use the calls that block"
        )


def keep(channel: C) -> C:
    """Take note of a channel that a forked child must not touch, and return it."""
    _channels.add(channel)
    return channel


def _before() -> None:
    with _gate.changed:
        _gate.forks += 1
        _gate.changed.wait_for(_gate.is_quiet, _LONGEST_WAIT_SECONDS)


def _after_in_parent() -> None:
    with _gate.changed:
        _gate.forks -= 1
        _gate.changed.notify_all()
        for loop, over in _gate.waiting:
            with suppress(RuntimeError):
                # The loop may be closed.
                loop.call_soon_threadsafe(_end, over)
        _gate.waiting.clear()


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _after_in_child() -> None:
    global _gate, _lost_awaited
    _gate = _Gate()
    for channel in (_held, *_channels):
        # Never freed, not even when the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(channel))
        _lost_awaited = _lost_awaited or isinstance(channel, grpc.aio.Channel)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
