"""Threads for plain handlers.

Not a ThreadPoolExecutor, which the interpreter joins at exit: a handler that never returns must not keep
the process from ending. These are daemon threads, made as they are needed, up to one a slot.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any


class Threads:
    """Runs functions in daemon threads of one event loop."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = 0
        self._made = 0
        self._lock = threading.Lock()

    async def run(self, context: Context, function: Callable[..., Any], **arguments: Any) -> Any:
        """Return what the function returns in a thread, in *context*; raise what it raises.

        If the awaiting side is canceled the function goes on, and its answer is dropped.
        """
        loop = asyncio.get_running_loop()
        call = _Call(loop, loop.create_future(), context, function, arguments)
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._made += 1
                threading.Thread(
                    target=self._serve, name=f"{self._name}-{self._made}", daemon=True
                ).start()
        self._work.put(call)
        return await call.answer

    def close(self) -> None:
        """Let every thread end after what it is doing."""
        for _ in range(self._made):
            self._work.put(None)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call.run()
            with self._lock:
                self._idle += 1
            # Nothing of the call may live on in this frame while the thread waits.
            del call


class _Call:
    """One function call on its way through a thread."""

    __slots__ = ("answer", "arguments", "context", "function", "loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[Any],
        context: Context,
        function: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> None:
        self.loop = loop
        self.answer = answer
        self.context = context
        self.function = function
        self.arguments = arguments

    def run(self) -> None:
        try:
            value = self.context.run(self.function, **self.arguments)
        except BaseException as error:  # noqa: BLE001 - a handler's sys.exit() is a failed attempt
            self._tell(error, None)
        else:
            self._tell(None, value)

    def _tell(self, error: BaseException | None, value: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(_settle, self.answer, error, value)
        except RuntimeError:
            # The loop is closed: the worker is gone, and the lease with it.
            return


def _settle(answer: asyncio.Future[Any], error: BaseException | None, value: Any) -> None:
    if answer.done():
        return
    # A future cannot carry every BaseException: StopIteration, for one, is refused. So it is a value.
    answer.set_result((error, value))
