"""Runs one attempt in a slot and says how it ended.

A slot is one long-lived asyncio task: a handler is driven inside it, not in a task of its own, which is
what makes a fast worker fast. So that handlers stay strangers to one another all the same, each is stepped
in a contextvars context of its own, and a cancellation meant for it never outlives it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine, Generator
from enum import Enum
from time import monotonic
from typing import Any

from wherry.domain.lease import Lease
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome, judge, retry
from wherry.errors import Cancel, DecodeError, Fail, InvalidTask
from wherry.tasks.payload import encode_result
from wherry.tasks.registry import Registry
from wherry.tasks.task import TaskType
from wherry.worker.context import Context, Queue, enter
from wherry.worker.threads import Threads

log = logging.getLogger("wherry.worker")


class Reason(Enum):
    """Why a running handler is told to stop."""

    TIMEOUT = "its time is up"
    LOST = "its lease is gone"
    CANCEL = "its cancel was asked for"
    SHUTDOWN = "the worker is stopping"


class Attempt:
    """One attempt while it runs."""

    __slots__ = ("context", "in_thread", "lease", "reason", "slot", "started_at", "stop_at")

    def __init__(self, context: Context, lease: Lease, *, timeout_seconds: float | None) -> None:
        self.context = context
        self.lease = lease
        self.started_at = monotonic()
        self.stop_at = None if timeout_seconds is None else self.started_at + timeout_seconds
        self.reason: Reason | None = None
        self.slot: asyncio.Task[Any] | None = None
        self.in_thread = False

    def stop(self, reason: Reason) -> None:
        """Tell the handler to stop: an async one is canceled, a plain one finds `cancelled` set.

        The first reason is the one that counts; telling it again cancels an async handler again.
        """
        if self.reason is None:
            self.reason = reason
        self.context.cancel()
        if self.slot is not None and not self.in_thread:
            self.slot.cancel()


class Runner:
    """Runs attempts for one worker."""

    def __init__(self, app: Queue, registry: Registry, threads: Threads) -> None:
        self._app = app
        self._registry = registry
        self._threads = threads
        # By (task id, token): what is running now.
        self.running: dict[tuple[int, int], Attempt] = {}

    async def run(self, lease: Lease) -> Outcome | None:
        """Run the handler of a leased task; None means that nothing is to be reported.

        Never raises for anything a handler does; CancelledError only when the slot itself is told to
        end while no handler is to blame.
        """
        task_type = self._registry.find(lease.type)
        context = Context(self._app, lease)
        attempt = Attempt(context, lease, timeout_seconds=lease.timeout_seconds)
        if task_type is None:
            # Only a type that was taken off the registry while it was being leased.
            return GivenBack(lease, "release")
        if lease.remaining <= 0:
            # No effect may start after the end of its lease.
            return None
        fence = (lease.id, lease.token)
        attempt.slot = asyncio.current_task()
        self.running[fence] = attempt
        try:
            value = await self._handle(task_type, attempt)
        except BaseException as error:  # noqa: BLE001 - the border around every handler
            outcome = self._after_error(error, attempt, task_type)
        else:
            outcome = self._after_return(value, attempt, task_type)
        finally:
            del self.running[fence]
            _forget_cancellation(attempt.slot)
        return outcome

    async def _handle(self, task_type: TaskType[Any, Any], attempt: Attempt) -> Any:
        arguments = task_type.bind(attempt.lease.payload)
        own = contextvars.copy_context()
        own.run(enter, attempt.context)
        if task_type.isolation == "loop":
            return await _InContext(own, task_type.function(**arguments))
        attempt.in_thread = True
        error, value = await self._threads.run(own, task_type.function, **arguments)
        attempt.in_thread = False
        if error is not None:
            raise error
        return value

    def _after_return(
        self, value: Any, attempt: Attempt, task_type: TaskType[Any, Any]
    ) -> Outcome | None:
        lease = attempt.lease
        if attempt.context.completing:
            return _rolled_back(lease)
        if attempt.reason is Reason.LOST:
            log.warning(
                "task %s returned after its lease was lost: its result is dropped", lease.id
            )
            return None
        if not task_type.store_result or value is None:
            return Completed(lease, None)
        try:
            return Completed(lease, encode_result(value))
        except InvalidTask as error:
            # Running it again would make the same value again.
            return Failed(
                lease, "fail", judge_failure(error, lease), reason="its result is not JSON"
            )

    def _after_error(
        self, error: BaseException, attempt: Attempt, task_type: TaskType[Any, Any]
    ) -> Outcome | None:
        lease = attempt.lease
        if attempt.context.completing:
            return _rolled_back(lease, error)
        if attempt.in_thread:
            # The slot was given up while the thread goes on: its lease must run out by itself, or
            # another worker would run the task beside it.
            return None
        if isinstance(error, asyncio.CancelledError):
            if attempt.reason is None and _slot_is_ending(attempt.slot):
                # The slot's own end, not the handler's: nothing is known to be wrong with the task.
                return GivenBack(lease, "release")
            match attempt.reason:
                case Reason.LOST:
                    return None
                case Reason.SHUTDOWN:
                    return GivenBack(lease, "release")
                case Reason.CANCEL:
                    return judge(Cancel("canceled while it ran"), lease)
                case Reason.TIMEOUT:
                    error = TimeoutError(
                        f"the attempt took longer than {lease.timeout_seconds:g} s"
                    )
        elif attempt.reason is Reason.LOST:
            log.warning("task %s raised after its lease was lost: %r", lease.id, type(error))
            return None
        if isinstance(error, DecodeError):
            return judge(Fail(f"DecodeError: {error}"), lease)
        policy = task_type.options.retry
        own_policy = policy if callable(policy) else None
        return judge(error, lease, policy=own_policy, note=log.warning)


def judge_failure(error: BaseException, lease: Lease) -> Any:
    """Describe an error without deciding about the task."""
    return retry(error, lease).failure


def _rolled_back(lease: Lease, error: BaseException | None = None) -> Failed:
    """What is reported after a completion in a transaction: refused if that one committed."""
    cause = error or RuntimeError(
        "completion rolled back: the handler called ctx.complete(tx=...),"
        " but that transaction did not commit"
    )
    return retry(cause, lease)


def _slot_is_ending(slot: asyncio.Task[Any] | None) -> bool:
    return slot is not None and slot.cancelling() > 0


def _forget_cancellation(slot: asyncio.Task[Any] | None) -> None:
    while slot is not None and slot.cancelling():
        slot.uncancel()


class _InContext:
    """Awaits a coroutine, each of its steps run in a context of its own."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, context: contextvars.Context, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._context = context
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        context, coroutine = self._context, self._coroutine
        try:
            waited = context.run(coroutine.send, None)
            while True:
                try:
                    answer = yield waited
                except BaseException as error:  # noqa: BLE001 - thrown in by the loop, for the handler
                    waited = context.run(coroutine.throw, error)
                else:
                    waited = context.run(coroutine.send, answer)
        except StopIteration as done:
            return done.value
        finally:
            coroutine.close()
