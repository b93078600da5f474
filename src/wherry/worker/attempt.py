"""Runs one attempt in a slot and says how it ended.

A slot is one long-lived asyncio task: a handler is driven inside it, not in a task of its own,
which is what makes a fast worker fast. So that handlers stay strangers to one another all the same,
each is stepped in a contextvars context of its own, and a cancellation meant for it never outlives
it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from enum import Enum
from time import monotonic
from types import CoroutineType
from typing import Any, TypeAlias

from wherry.domain.failure import describe, type_name
from wherry.domain.lease import Fence, Lease
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome, judge, retry
from wherry.domain.stored import decode
from wherry.errors import DecodeError, HandlerError, InvalidTask
from wherry.signals import Cancel
from wherry.tasks.payload import encode_result
from wherry.tasks.registry import Registry
from wherry.tasks.task import TaskType
from wherry.telemetry.loggers import logger
from wherry.worker.context import AppCalls, Context, enter, tell_to_stop
from wherry.worker.logged import fields_of
from wherry.worker.threads import Threads

log = logger("wherry.worker")

# Runs the attempt of a lease in a slot.
Run: TypeAlias = Callable[[Lease, asyncio.Task[Any] | None], Awaitable[Outcome | None]]


class Reason(Enum):
    """Why a running handler is told to stop."""

    TIMEOUT = "its time is up"
    LOST = "its lease is gone"
    CANCEL = "its cancel was asked for"
    SHUTDOWN = "the worker is stopping"


class Attempt:
    """One attempt while it runs."""

    # Of the class, since most attempts end as they began.
    in_thread = False
    # The thread's identifier, once the handler runs in it.
    thread: int | None = None
    reason: Reason | None = None
    told_at = 0.0
    warned = False
    forsaken = False

    def __init__(
        self,
        context: Context,
        lease: Lease,
        began_at: float,
        slot: asyncio.Task[Any] | None,
    ) -> None:
        self.context = context
        self.lease = lease
        timeout = lease.timeout_seconds
        self.stop_at = None if timeout is None else began_at + timeout
        self.slot = slot

    def stop(self, reason: Reason) -> None:
        """Tell the handler to stop: an async one is canceled, a plain one finds `cancelled` set.

        The first reason counts, but a lease that is gone outdoes any other: nothing may be
        reported then.
        """
        if self.reason is None:
            self.told_at = monotonic()
        if self.reason is None or reason is Reason.LOST:
            self.reason = reason
        tell_to_stop(self.context)
        if self.slot is not None and not self.in_thread:
            self.slot.cancel()

    def is_late(self) -> bool:
        """Whether the lease has just been found to be over; the handler is told then.

        An open transaction that completes the task needs no lease: its row lock is enough.
        """
        if self.lease.remaining > 0 or self.reason is Reason.LOST or self.context.completing:
            return False
        self.reason, self.told_at = Reason.LOST, monotonic()
        tell_to_stop(self.context)
        return True

    def forsake(self) -> None:
        """End an async handler that ignores its cancellation: its coroutine is closed.

        The slot is free then whatever the handler does about that.
        """
        self.forsaken = True
        if self.slot is not None and not self.in_thread:
            self.slot.cancel()


class Runner:
    """Runs attempts for one worker."""

    def __init__(
        self,
        app: AppCalls,
        registry: Registry,
        threads: Threads,
        *,
        is_ending: Callable[[], bool],
        waits: Callable[[], object] = lambda: None,
    ) -> None:
        self._app = app
        self._registry = registry
        self._threads = threads
        # Called when a handler is about to be waited for: most end without.
        self._waits = waits
        # Whether the slot itself is being canceled, when a cancellation is no handler's fault.
        self._is_ending = is_ending
        # What is running now and has had to be waited for: of the rest nobody could ask meanwhile.
        self.running: dict[Fence, Attempt] = {}

    async def run(self, lease: Lease, slot: asyncio.Task[Any] | None = None) -> Outcome | None:
        """Run the handler of a leased task; None means that nothing is to be reported.

        *slot* is the task that awaits this, which need not be looked up where it is known. Never
        raises for anything a handler does, is, or raises.
        """
        slot = slot or asyncio.current_task()
        task_type = self._registry.find(lease.type)
        if task_type is None:
            # Only a type that was taken off the registry while it was being leased.
            return GivenBack(lease, "release")
        now = monotonic()
        if lease.deadline <= now:
            # No effect may start after the end of its lease.
            return None
        try:
            arguments = task_type.bind(decode(lease.payload_text))
        except DecodeError as bad:
            # It will not become readable by itself; the stored text is kept.
            return Failed(lease, "fail", describe(bad), reason="its payload cannot be read")
        except HandlerError as bad:
            # A worker that is newer or older may take it: retried, by policy.
            return _judged(bad, lease, task_type)
        context = Context(self._app, lease)
        own = contextvars.copy_context()
        coroutine: Coroutine[Any, Any, Any] | None = None
        error: BaseException | None = None
        value: Any = None
        if task_type.isolation == "loop":
            try:
                coroutine, value = own.run(_begin, context, task_type.function, arguments)
            except BaseException as raised:  # noqa: BLE001 - the border around every handler
                error = raised
            if coroutine is None and error is None:
                # Most of what is quick ends here, without anything made to wait with.
                if slot is not None and slot.cancelling():
                    await absorb(slot)
                return _after_return(value, context, task_type)
        attempt = Attempt(context, lease, now, slot)
        fence = lease.fence
        self.running[fence] = attempt
        try:
            try:
                if coroutine is not None:
                    self._waits()
                    value = await _InContext(own, coroutine, value, attempt)
                elif error is None:
                    self._waits()
                    error, value = await self._in_thread(own, task_type, attempt, arguments)
            except BaseException as raised:  # noqa: BLE001 - the border around every handler
                error = raised
            if slot is not None and slot.cancelling():
                await absorb(slot)
            if error is not None:
                return self._after_error(error, attempt, task_type)
            if attempt.reason is Reason.LOST and not context.completing:
                told = "task %s returned after its lease was lost: its result is dropped"
                log.warning(told, lease.id, extra=fields_of(lease))
                return None
            return _after_return(value, context, task_type)
        finally:
            # Not before: a worker ends when nothing runs and nothing waits to be reported.
            del self.running[fence]
            # The error holds its frames, and this frame the error: without this only the garbage
            # collector would let go of what the handler held.
            error = value = None

    async def _in_thread(
        self,
        own: contextvars.Context,
        task_type: TaskType[Any, Any],
        attempt: Attempt,
        arguments: dict[str, Any],
    ) -> tuple[BaseException | None, Any]:
        own.run(enter, attempt.context)
        function = task_type.function

        def call() -> Any:
            attempt.thread = threading.get_ident()
            if attempt.lease.remaining <= 0:
                # It took so long to get here, or the process was stopped on the way.
                attempt.reason = Reason.LOST
                raise asyncio.CancelledError
            return function(**arguments)

        attempt.in_thread = True
        error, value = await self._threads.run(own, call, gives_up=self._is_ending)
        attempt.in_thread = False
        if error is None and inspect.isawaitable(value):
            with suppress(AttributeError):
                value.close()  # type: ignore[attr-defined]
            error = HandlerError(
                f"{task_type.name} is a plain function, but it returned {type_name(type(value))},"
                " which nobody would await: make the handler async"
            )
        return error, value

    def _after_error(
        self, error: BaseException, attempt: Attempt, task_type: TaskType[Any, Any]
    ) -> Outcome | None:
        lease = attempt.lease
        # By its type alone: isinstance also asks the error's own `__class__`.
        is_canceled = issubclass(type(error), asyncio.CancelledError)
        if attempt.in_thread and is_canceled:
            # The slot was given up while the thread goes on: its lease must run out by itself, or
            # another worker would run the task beside it.
            return None
        if attempt.context.completing:
            return _rolled_back(lease, error)
        if attempt.reason is Reason.LOST:
            if not is_canceled:
                told = "task %s raised %s after its lease was lost"
                log.warning(told, lease.id, type_name(type(error)), extra=fields_of(lease))
            return None
        if is_canceled:
            match attempt.reason:
                case Reason.SHUTDOWN:
                    return GivenBack(lease, "release")
                case Reason.CANCEL:
                    return judge(Cancel("canceled while it ran"), lease)
                case Reason.TIMEOUT:
                    late = TimeoutError(f"the attempt took longer than {lease.timeout_seconds:g} s")
                    # Its traceback tells where the handler was.
                    late.__cause__ = error
                    return _judged(late, lease, task_type)
                case _ if self._is_ending():
                    return GivenBack(lease, "release")
                case _:
                    # The handler canceled itself: a failure like any other.
                    pass
        return _judged(error, lease, task_type)


def _after_return(value: Any, context: Context, task_type: TaskType[Any, Any]) -> Outcome:
    lease = context.lease
    if context.completing:
        return _rolled_back(lease)
    if not task_type.store_result or value is None:
        return Completed(lease, None)
    try:
        return Completed(lease, encode_result(value))
    except InvalidTask as error:
        # Running it again would make the same value again.
        return Failed(lease, "fail", describe(error), reason="its result is not JSON")


def _judged(error: BaseException, lease: Lease, task_type: TaskType[Any, Any]) -> Outcome:
    policy = task_type.options.retry
    # A policy that was given with the enqueue is stored, and goes before the function of the type.
    own = policy if callable(policy) and lease.retry_text is None else None
    try:
        return judge(error, lease, policy=own, note=log.warning)
    except BaseException as trouble:  # noqa: BLE001 - the exception's own code, or the policy's, ran
        log.warning(
            "task %s: what it raised cannot be judged (%s), so it is a failure like any other",
            lease.id,
            type_name(type(trouble)),
            extra=fields_of(lease),
        )
        return retry(error, lease)


def _rolled_back(lease: Lease, error: BaseException | None = None) -> Failed:
    """What is reported after a completion in a transaction: refused if that one committed."""
    cause = error or RuntimeError(
        "completion rolled back: the handler called ctx.complete(tx=...),"
        " but that transaction did not commit"
    )
    return retry(cause, lease)


def _begin(
    context: Context, function: Callable[..., Any], arguments: dict[str, Any]
) -> tuple[Coroutine[Any, Any, Any] | None, Any]:
    """Take the first step of an async handler, in the contextvars context that is its own.

    Returns its coroutine and what that waits for; or, of one that has ended, None and its value.
    """
    enter(context)
    made: Any = function(**arguments)
    # Typed by hand: isinstance tells nothing of what it yields.
    coroutine: Coroutine[Any, Any, Any] = made
    if type(made) is not CoroutineType and not isinstance(made, Coroutine):
        coroutine = _finish(made)
    try:
        return coroutine, coroutine.send(None)
    except StopIteration as done:
        return None, done.value


async def _finish(made: Any) -> Any:
    """What a handler wrapped by a plain decorator gave back, awaited if that is needed."""
    return await made if inspect.isawaitable(made) else made


async def absorb(slot: asyncio.Task[Any]) -> None:
    """Take in a cancellation that was for a handler: it must not hit the slot's next wait."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while slot.cancelling():
        slot.uncancel()


class _InContext:
    """Awaits a coroutine that has begun, each of its steps run in a context of its own."""

    __slots__ = ("_attempt", "_context", "_coroutine", "_waited")

    def __init__(
        self,
        context: contextvars.Context,
        coroutine: Coroutine[Any, Any, Any],
        waited: Any,
        attempt: Attempt,
    ) -> None:
        self._context = context
        self._coroutine = coroutine
        # What its first step waits for.
        self._waited = waited
        self._attempt = attempt

    def __await__(self) -> Generator[Any, Any, Any]:
        step, coroutine, attempt = self._context.run, self._coroutine, self._attempt
        waited = self._waited
        try:
            while True:
                try:
                    answer = yield waited
                except BaseException as error:
                    # Thrown in by the loop, for the handler.
                    if attempt.forsaken:
                        with suppress(BaseException):
                            step(coroutine.close)
                        raise
                    waited = step(coroutine.throw, error)
                else:
                    if attempt.is_late():
                        # The loop, or the whole process, has stood still past the lease's end.
                        waited = step(coroutine.throw, asyncio.CancelledError())
                    else:
                        waited = step(coroutine.send, answer)
        except StopIteration as done:
            return done.value
