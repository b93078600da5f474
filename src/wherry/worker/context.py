"""What a handler can ask about the attempt it is running.

`current()` works in async handlers, in plain ones (which run in threads), and in whatever they
await.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, Unpack

from wherry.domain.lease import Lease, Reported
from wherry.domain.options import EnqueueOptions
from wherry.domain.schedule import PLANNED_HEADER, SCHEDULE_HEADER, read_planned
from wherry.domain.stored import decode
from wherry.domain.task import Enqueued
from wherry.errors import LeaseLost
from wherry.own_lock import OwnLock
from wherry.tasks.task import AMBIENT
from wherry.telemetry.loggers import logger

log = logger("wherry.worker")

_current: ContextVar[Context] = ContextVar("wherry_current")
# Makes a context the current one, in the calling contextvars context.
enter = _current.set
# Two threads of one handler must not wait for an event each.
_making_event = OwnLock()


class AppCalls(Protocol):
    """The calls of its App that a running handler needs."""

    def complete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Finish a leased task, blocking."""
        ...

    async def acomplete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Finish a leased task."""
        ...

    def enqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = ...,
        notify: bool = ...,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Store a task, blocking."""
        ...

    async def aenqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = ...,
        notify: bool = ...,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Store a task."""
        ...


class Context:
    """One running attempt."""

    __slots__ = ("_app", "_event", "_is_told", "completing", "lease")

    def __init__(self, app: AppCalls, lease: Lease) -> None:
        self._app = app
        self._is_told = False
        # Made by the first who waits: hardly any handler does, and making one is dear.
        self._event: threading.Event | None = None
        self.lease = lease
        # Set by `complete`: from then on the worker itself never completes this lease.
        self.completing = False

    @property
    def task_id(self) -> int:
        """The task's id."""
        return self.lease.id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.lease.attempt

    @property
    def headers(self) -> dict[str, str]:
        """The headers the task was enqueued with; a fresh copy."""
        text = self.lease.headers_text
        return decode(text, what="headers") if text else {}

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that brought the task; None if none did."""
        return self.headers.get(SCHEDULE_HEADER)

    @property
    def planned_at(self) -> datetime | None:
        """The time for which a schedule planned the task, in UTC; None if it was run by hand."""
        return read_planned(self.headers.get(PLANNED_HEADER))

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the lease is gone, a cancel was asked for, or the time is up.

        A plain handler in a thread cannot be stopped from outside: a long one looks here.
        """
        return self._is_told

    def wait_cancelled(self, seconds: float) -> bool:
        """Wait up to *seconds* for `cancelled`: a sleep that ends when it is time to stop."""
        with _making_event.lock:
            if self._event is None:
                self._event = threading.Event()
        # Only now: whoever tells us sets the flag before looking for an event.
        return self._is_told or self._event.wait(seconds)

    def complete(self, *, tx: Any, result: Any = None) -> None:
        """Finish the task inside the transaction open on *tx* (a blocking connection).

        The task is done if and only if that transaction commits. Raises LeaseLost if the lease is
        gone: let it propagate, so that the transaction rolls back.
        """
        self._about_to_complete()
        self._app.complete(self.lease, result=result, tx=tx)

    async def acomplete(self, *, tx: Any, result: Any = None) -> None:
        """Finish the task inside the transaction open on *tx* (an async connection).

        The task is done if and only if that transaction commits. Raises LeaseLost if the lease is
        gone: let it propagate, so that the transaction rolls back.
        """
        self._about_to_complete()
        await self._app.acomplete(self.lease, result=result, tx=tx)

    def enqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        notify: bool = True,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Enqueue another task by name, blocking; see App.enqueue."""
        return self._app.enqueue(type, payload, tx=tx, notify=notify, **options)

    async def aenqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        notify: bool = True,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Enqueue another task by name; see App.aenqueue."""
        return await self._app.aenqueue(type, payload, tx=tx, notify=notify, **options)

    def _about_to_complete(self) -> None:
        if self.lease.remaining <= 0:
            # By our own clock, which is never later than the database's.
            raise LeaseLost(self.lease.id, token=self.lease.token)
        self.completing = True


def running() -> Context | None:
    """Return the running attempt's context; None outside a handler."""
    return _current.get(None)


def current() -> Context:
    """Return the running attempt's context. Raises LookupError outside a handler."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("wherry.current() was called outside a running handler") from None


def tell_to_stop(context: Context) -> None:
    """Set the context's `cancelled`; whoever runs the handler calls this, never the handler."""
    context._is_told = True  # pyright: ignore[reportPrivateUsage]
    event = context._event  # pyright: ignore[reportPrivateUsage]
    if event is not None:
        event.set()


@contextmanager
def entered(context: Context) -> Generator[None]:
    """Make *context* the current one inside the block; where handlers are called by hand."""
    mark = _current.set(context)
    try:
        yield
    finally:
        # pytest may end a fixture elsewhere than it began it, where there is nothing to undo.
        with suppress(ValueError):
            _current.reset(mark)


def warn_of_waiting(id: int) -> None:
    """Warn a handler that waits for another task: with every slot waiting, nothing moves."""
    context = running()
    if context is not None:
        log.warning(
            "task %s waits for the result of task %s inside its handler: it holds a slot meanwhile,"
            " and if all slots wait like this, the tasks they wait for never start",
            context.lease.id,
            id,
        )
