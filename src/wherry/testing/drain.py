"""Works off the tasks of a test's database, on request and in this process.

It is made of a worker's own parts, one task at a time and in the order in which one slot would take
them. Unlike a worker it stops when nothing is due, so a retry that is due later stays: move the
clock, and drain again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from wherry.app.app import App
from wherry.app.loop import refuse_in_loop
from wherry.commands.base import Command
from wherry.commands.leases import CompleteTasks, FailTasks, GiveBackTasks, LeaseTasks
from wherry.commands.queues import ListReadyQueues
from wherry.domain.lease import Fence, Lease, Reported
from wherry.domain.outcome import Completed, Failed, Outcome
from wherry.domain.task import Task
from wherry.errors import DecodeError, HandlerError
from wherry.signals import Signal
from wherry.tasks.registry import Registry
from wherry.tasks.task import TaskType
from wherry.testing.expect import aexpect_enqueued, expect_enqueued
from wherry.worker.attempt import Reason, Runner
from wherry.worker.threads import Threads

WORKER = "wherry.testing"
# Nobody beats for these leases.
LEASE_SECONDS = 3600.0
# A report that finds its task held by an open transaction is sent again for so long.
BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt that a drain ran.

    `answer` is what the database made of it; `error` what the handler raised, signals included;
    `value` what it returned.
    """

    id: int
    type: str
    queue: str
    payload: dict[str, Any]
    attempt: int
    answer: Reported
    value: Any = None
    error: BaseException | None = None


class Manual:
    """An App whose tasks wait until they are drained; with *dsn*, on that database meanwhile."""

    def __init__(self, app: App, dsn: str | None = None) -> None:
        self.app = app
        self._dsn = dsn
        self._before: str | None = None

    def drain(
        self,
        *,
        queues: Collection[str] | None = None,
        raise_errors: bool = True,
        limit: int = 1000,
    ) -> list[Ran]:
        """Run what is due until nothing is, and return the attempts in their order.

        *queues*: all, if not given. An error of a handler is recorded as a worker would, and then
        raised here, unless *raise_errors* is False; signals (Retry, Snooze, Fail, Cancel) are only
        recorded. More than *limit* attempts are a RuntimeError: tasks that make one another.
        Types that are not registered stay where they are.
        """
        refuse_in_loop("drain")
        return asyncio.run(self._drain_and_close(queues, raise_errors, limit))

    async def adrain(
        self,
        *,
        queues: Collection[str] | None = None,
        raise_errors: bool = True,
        limit: int = 1000,
    ) -> list[Ran]:
        """Do what `drain` does, in the running loop; canceling it gives the running task back."""
        self.app.load()
        ran: list[Ran] = []
        threads = Threads(name=WORKER)
        try:
            while True:
                await self.app.areap()
                before = len(ran)
                while (lease := await self._next(queues)) is not None:
                    ran.append(await self._run(lease, threads))
                    error = ran[-1].error
                    if raise_errors and error is not None and not isinstance(error, Signal):
                        raise error
                    if len(ran) >= limit:
                        raise RuntimeError(
                            f"{limit} attempts were run and there may be more to do, lastly of"
                            f" {ran[-1].type}: do these tasks enqueue one another without end?"
                        )
                if len(ran) == before:
                    return ran
        finally:
            threads.close()

    def expect_enqueued(
        self,
        type: TaskType[..., Any] | str,
        payload: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        state: str | None = None,
        count: int | None = None,
        tx: Any = None,
    ) -> list[Task]:
        """Do what `wherry.testing.expect_enqueued` does, for this App."""
        __tracebackhide__ = True
        return expect_enqueued(
            self.app, type, payload, queue=queue, key=key, priority=priority, tags=tags,
            state=state, count=count, tx=tx,
        )  # fmt: skip

    async def aexpect_enqueued(
        self,
        type: TaskType[..., Any] | str,
        payload: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        state: str | None = None,
        count: int | None = None,
        tx: Any = None,
    ) -> list[Task]:
        """Do what `wherry.testing.expect_enqueued` does, for this App."""
        __tracebackhide__ = True
        return await aexpect_enqueued(
            self.app, type, payload, queue=queue, key=key, priority=priority, tags=tags,
            state=state, count=count, tx=tx,
        )  # fmt: skip

    def __enter__(self) -> Self:
        if self._dsn is not None:
            self._before = self.app.move(self._dsn)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._dsn is not None:
            self.app.move(self._before)

    async def __aenter__(self) -> Self:
        await self.app.aclose_loop()
        await asyncio.to_thread(self.__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.app.aclose_loop()
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    async def _drain_and_close(
        self, queues: Collection[str] | None, raise_errors: bool, limit: int
    ) -> list[Ran]:
        try:
            return await self.adrain(queues=queues, raise_errors=raise_errors, limit=limit)
        finally:
            await self.app.aclose_loop()

    async def _next(self, queues: Collection[str] | None) -> Lease | None:
        ready = await self.app.acarry(ListReadyQueues(), call="drain")
        for queue in sorted(ready):
            if queues is None or queue in queues:
                leases = await self.app.acarry(
                    LeaseTasks(
                        queue=queue,
                        worker=WORKER,
                        types=self.app.registry.names,
                        lease_seconds=LEASE_SECONDS,
                    ),
                    call="drain",
                )
                if leases:
                    return leases[0]
        return None

    async def _run(self, lease: Lease, threads: Threads) -> Ran:
        """Run one attempt and report it; only then pass on a cancellation of the drain."""
        me = asyncio.current_task()
        before = me.cancelling() if me is not None else 0

        def is_ending() -> bool:
            return me is not None and me.cancelling() > before

        recorded = _Recorded(self.app.registry)
        runner = Runner(self.app, recorded, threads, is_ending=is_ending)
        slot = asyncio.create_task(runner.run(lease), name=f"task {lease.id}")
        seconds = LEASE_SECONDS if lease.timeout_seconds is None else lease.timeout_seconds
        alarm = asyncio.get_running_loop().call_later(seconds, _time_out, runner, lease.fence)
        try:
            outcome = await slot
        finally:
            alarm.cancel()
        answer = Reported.LOST if outcome is None else await self._report(outcome)
        if is_ending():
            raise asyncio.CancelledError
        return Ran(
            lease.id, lease.type, lease.queue, _payload(lease), lease.attempt, answer,
            recorded.value, _error(recorded.error, outcome, answer),
        )  # fmt: skip

    async def _report(self, outcome: Outcome) -> Reported:
        command: Command[list[Reported]]
        match outcome:
            case Completed():
                command = CompleteTasks((outcome,))
            case Failed():
                command = FailTasks((outcome,))
            case _:
                command = GiveBackTasks((outcome,))
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + BUSY_SECONDS
        while True:
            [answer] = await self.app.acarry(command, call="drain")
            if answer is not Reported.BUSY or loop.time() > gives_up_at:
                return answer
            await asyncio.sleep(0.02)


class _Recorded(Registry):
    """The same types, whose handlers leave here what they returned or raised."""

    def __init__(self, known: Registry) -> None:
        super().__init__()
        self._known = known
        self.value: Any = None
        self.error: BaseException | None = None

    def find(self, name: str) -> TaskType[Any, Any] | None:
        known = self._known.find(name)
        if known is None:
            return None
        recorded = copy.copy(known)
        listened = self._listened if known.isolation == "thread" else self._alistened
        recorded.function = listened(known.function)
        return recorded

    def _listened(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(**arguments: Any) -> Any:
            try:
                self.value = function(**arguments)
            except BaseException as error:
                self.error = error
                raise
            return self.value

        return run

    def _alistened(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def run(**arguments: Any) -> Any:
            try:
                self.value = await function(**arguments)
            except BaseException as error:
                self.error = error
                raise
            return self.value

        return run


def manual(app: App, dsn: str | None = None) -> Manual:
    """Return the App's tasks, to be drained by hand.

    With *dsn* the App uses that database inside `with manual(app, dsn) as tasks:` (in tests with an
    event loop `async with`), and the one it had again afterwards. Without, it stays where it is.
    """
    return Manual(app, dsn)


def _time_out(runner: Runner, fence: Fence) -> None:
    attempt = runner.running.get(fence)
    if attempt is not None:
        attempt.stop(Reason.TIMEOUT)


def _payload(lease: Lease) -> dict[str, Any]:
    try:
        return lease.payload
    except DecodeError:
        return {}


def _error(
    raised: BaseException | None, outcome: Outcome | None, answer: Reported
) -> BaseException | None:
    """Return what the handler raised, or what went wrong around it."""
    if isinstance(outcome, Failed) and answer is not Reported.ALREADY_DONE:
        if isinstance(raised, asyncio.CancelledError):
            return TimeoutError(outcome.failure.message)
        if raised is None:
            return HandlerError(f"{outcome.failure.type}: {outcome.failure.message}")
    return raised
