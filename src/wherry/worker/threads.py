"""Threads for plain handlers.

Not a ThreadPoolExecutor, which the interpreter joins at exit: a handler that never returns must not
keep the process from ending. These are daemon threads, made as they are needed, up to one a slot.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any, TypeAlias

# What a call raised, or what it returned. As a value, since a future refuses some exceptions.
Ended: TypeAlias = tuple[BaseException | None, Any]


class Threads:
    """Runs functions in daemon threads of one event loop."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = 0
        self._made = 0
        self._lock = threading.Lock()

    async def run(
        self, context: Context, function: Callable[[], Any], *, gives_up: Callable[[], bool]
    ) -> Ended:
        """Run *function* in a thread, in *context*.

        A cancellation cannot end it, so it is waited for all the same; only where *gives_up* says
        so it goes on alone, and how it ends is dropped. Raises RuntimeError if the system has no
        thread left; then the function does not run.
        """
        loop = asyncio.get_running_loop()
        call = _Call(loop, context, function)
        with self._lock:
            needs_thread = not self._idle
            if not needs_thread:
                self._idle -= 1
        if needs_thread:
            name = f"{self._name}-{self._made + 1}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._made += 1
        self._work.put(call)
        while call.ended is None:
            try:
                await call.waited
            except asyncio.CancelledError:
                if gives_up():
                    raise
                call.waited = loop.create_future()
        return call.ended

    def close(self) -> None:
        """Let every thread end after what it is doing."""
        for _ in range(self._made):
            self._work.put(None)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            error, value = call.run()
            # Idle before anybody can know: whoever is told may have the next call at once.
            with self._lock:
                self._idle += 1
            call.tell(error, value)
            # Nothing of the call may live on in this frame while the thread waits.
            del call, error, value


class _Call:
    """One function call on its way through a thread."""

    __slots__ = ("_context", "_function", "_loop", "ended", "waited")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: Context, function: Callable[[], Any]
    ) -> None:
        self._loop = loop
        # How it ended, and what is done when that is known; both of the loop.
        self.ended: Ended | None = None
        self.waited: asyncio.Future[None] = loop.create_future()
        self._context = context
        self._function = function

    def run(self) -> Ended:
        try:
            return None, self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - a handler's sys.exit() is a failed attempt
            return error, None

    def tell(self, error: BaseException | None, value: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, (error, value))
        except RuntimeError:
            # The loop is closed: the worker is gone, and the lease with it.
            return

    def _settle(self, ended: Ended) -> None:
        self.ended = ended
        if not self.waited.done():
            self.waited.set_result(None)
