"""The calls of an App, in their awaited form; `calls_blocking.py` is generated from this file.

A call builds a command and has it carried; it decides nothing about the queue by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any

from wherry.app.asked import STEP, asked_failure, asked_filter, asked_task, result_of
from wherry.app.ids import TaskIds
from wherry.app.process import Process
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.queues import ListQueues, ListReadyQueues
from wherry.commands.tasks import (
    CancelTasks,
    DrawTaskIds,
    EnqueueTasks,
    GetTask,
    ListTasks,
    PurgeTasks,
    RequeueTasks,
)
from wherry.domain.durations import seconds_from
from wherry.domain.lease import Lease, Reported
from wherry.domain.options import TaskSpec
from wherry.domain.outcome import Completed, GivenBack
from wherry.domain.task import Canceled, Enqueued, Page, QueueDepth, Requeued, Task
from wherry.errors import KeyTaken, NotFound
from wherry.maintenance.steps import Maintained, maintenance_pass
from wherry.tasks.payload import encode_result
from wherry.tasks.registry import Registry
from wherry.tasks.task import AMBIENT
from wherry.worker.context import warn_of_waiting


class Calls(Process):
    """Everything an App can be asked, awaited."""

    registry: Registry
    _ids: TaskIds

    async def aenqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        **options: Any,
    ) -> Enqueued:
        """Store one task by the name of its type; *options* are those of `TaskType.using`.

        With *tx* the task exists if and only if that transaction commits. A key that already names
        a task is answered with that task's id and `created=False`; while the transaction that
        stores it is open, this call waits for it. Raises InvalidTask before anything is sent.
        """
        spec, notify = asked_task(self.registry, type, payload or {}, options)
        return (await self.aenqueue_specs([spec], tx=tx, notify=notify))[0]

    async def aenqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        """Store many tasks, all or none: each a mapping with `type`, `payload` and any option.

        Answers in their order. Raises InvalidTask, naming the index of the one that was refused.
        """
        specs = [
            asked_task(self.registry, task.get("type"), task.get("payload", {}), task, index=index)[
                0
            ]
            for index, task in enumerate(tasks)
        ]
        return await self.aenqueue_specs(specs, tx=tx, notify=notify)

    async def aenqueue_specs(
        self, specs: Sequence[TaskSpec], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        """Store tasks that were checked already."""
        if not specs:
            return []
        tx = self.ambient(tx)
        ids = None
        if tx is None:
            ids = self._ids.take(len(specs))
            if ids is None:
                n = len(specs)
                drawn = await self.acarry(DrawTaskIds(self._ids.draw_for(n)), call="enqueue")
                ids = self._ids.add(drawn, n=n)
        command = EnqueueTasks(tuple(specs), ids=ids, notify=notify)
        answers = await self.acarry(command, tx=tx, call="enqueue")
        return [Enqueued(a.id, a.created, a.payload_matches, self) for a in answers]

    async def aget_task(self, id: int) -> Task | None:
        """Read a task with its history; None if the id names none (any more)."""
        return await self.acarry(GetTask(int(id)), call="get_task")

    async def alist_tasks(
        self,
        *,
        state: str | Iterable[str] | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        error: str | None = None,
        older_than: timedelta | float | None = None,
        limit: int = 100,
        after: int | None = None,
        with_history: bool = False,
    ) -> Page:
        """List tasks, newest first; pass the page's `after` for the next one.

        *limit* is 1 to 1,000 a page. *error* is a part of the last error's text, in any case.
        *older_than* counts from the end of a finished task, from the enqueue of a live one.
        """
        wanted = asked_filter(
            state=state, queue=queue, type=type, tag=tag, error=error, older_than=older_than
        )
        limit = max(1, min(limit, 1000))
        return await self.acarry(ListTasks(wanted, limit, after, with_history), call="list_tasks")

    async def alist_queues(self) -> list[QueueDepth]:
        """Count what each queue holds."""
        return await self.acarry(ListQueues(), call="list_queues")

    async def aresult(self, id: int, *, timeout: timedelta | float) -> Any:
        """Wait for a task's stored result.

        Raises TaskFailed, TaskDead, TaskCanceled, ResultNotStored, NotFound, or TimeoutError after
        *timeout*. Inside a handler it can wait for its own slot: it logs a warning there.
        """
        seconds = seconds_from(timeout, option="timeout")
        deadline = monotonic() + seconds
        warn_of_waiting(id)
        pause = 0.01
        while True:
            task = await self.aget_task(id)
            if task is None:
                raise NotFound(id)
            if task.state.is_final:
                return result_of(task)
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError(f"task {id} is still {task.state} after {seconds:g} s")
            await asyncio.sleep(min(pause * random.uniform(0.5, 1.0), left))
            pause = min(pause * 1.5, 1.0)

    async def acancel(self, id: int, *, reason: str | None = None) -> Canceled:
        """Cancel one task: CANCELED (it was queued), REQUESTED (its worker is told) or FINAL.

        Raises NotFound for an id that names no task.
        """
        answers = await self.acancel_many([id], reason=reason)
        if answers[id] is Canceled.UNKNOWN:
            raise NotFound(id)
        return answers[id]

    async def acancel_many(
        self, ids: Sequence[int], *, reason: str | None = None
    ) -> dict[int, Canceled]:
        """Cancel tasks by id; the answer of each is independent of the others'."""
        answers: dict[int, Canceled] = {}
        for start in range(0, len(ids), STEP):
            part = tuple(ids[start : start + STEP])
            answers |= await self.acarry(CancelTasks(part, reason), call="cancel")
        return answers

    async def arequeue(self, id: int, *, without_key: bool = False) -> Requeued:
        """Put a finished task back; its attempts start again, its token and history stay.

        Raises KeyTaken if its key names another task meanwhile, NotFound for an unknown id. A task
        that has not finished is answered `not_final` and left alone.
        """
        [answer] = await self.arequeue_many([id], without_key=without_key)
        if answer.answer == "unknown":
            raise NotFound(id)
        if answer.answer == "key_taken":
            raise KeyTaken(id, key=answer.key or "", taken_by=answer.taken_by or 0)
        return answer

    async def arequeue_many(
        self, ids: Sequence[int], *, without_key: bool = False
    ) -> list[Requeued]:
        """Put finished tasks back by id; one answer for each, in order."""
        answers: list[Requeued] = []
        for start in range(0, len(ids), STEP):
            part = tuple(ids[start : start + STEP])
            answers += await self.acarry(RequeueTasks(part, without_key), call="requeue")
        return answers

    async def apurge(self, ids: Sequence[int]) -> list[int]:
        """Delete finished tasks with their history; returns the ids that are gone now."""
        gone: list[int] = []
        for start in range(0, len(ids), STEP):
            gone += await self.acarry(PurgeTasks(tuple(ids[start : start + STEP])), call="purge")
        return gone

    async def alease(
        self,
        *,
        worker: str,
        queues: Sequence[str] = ("default",),
        max_tasks: int = 1,
        lease_for: timedelta | float = 30.0,
        types: Sequence[str] | None = None,
        wait: timedelta | float = 0.0,
    ) -> list[Lease]:
        """Lease up to *max_tasks* tasks from *queues*, in their order (`*` stands for all).

        Waits up to *wait* for one. Whoever leases must heartbeat, and report, in time.
        """
        lease_seconds = seconds_from(lease_for, option="lease_for", zero_allowed=False)
        deadline = monotonic() + seconds_from(wait, option="wait")
        known = None if types is None else tuple(types)
        while True:
            names = list(queues)
            if "*" in names:
                names = await self.acarry(ListReadyQueues(), call="lease")
                random.shuffle(names)
            leases: list[Lease] = []
            for queue in names:
                command = LeaseTasks(
                    queue=queue,
                    worker=worker,
                    limit=max_tasks - len(leases),
                    types=known,
                    lease_seconds=lease_seconds,
                )
                leases += await self.acarry(command, call="lease")
                if len(leases) >= max_tasks:
                    break
            left = deadline - monotonic()
            if leases or left <= 0:
                return leases
            await asyncio.sleep(min(left, random.uniform(0.1, 0.3)))

    async def aheartbeat(
        self, leases: Sequence[Lease], *, extend_by: timedelta | float = 30.0
    ) -> list[Reported]:
        """Extend leases: EXTENDED, CANCEL_REQUESTED (extended; let go), BUSY or LOST, in order."""
        seconds = seconds_from(extend_by, option="extend_by", zero_allowed=False)
        return await self.acarry(HeartbeatLeases(tuple(leases), seconds), call="heartbeat")

    async def acomplete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Finish a leased task: DONE, ALREADY_DONE, BUSY or LOST.

        With *tx* it is finished if and only if that transaction commits, and LeaseLost is raised
        instead of any other answer than DONE.
        """
        outcome = Completed(lease, None if result is None else encode_result(result))
        if tx is not None:
            await self.acarry(CompleteInTransaction(outcome), tx=tx, call="complete")
            return Reported.DONE
        return (await self.acarry(CompleteTasks((outcome,)), call="complete"))[0]

    async def afail(
        self,
        lease: Lease,
        error: BaseException | str,
        *,
        retry: bool = True,
        after: timedelta | float | None = None,
    ) -> Reported:
        """Record a failed attempt: REQUEUED or DEAD, or FAILED with `retry=False`.

        *after* takes the place of the stored policy's delay. ALREADY_DONE, BUSY or LOST as ever.
        """
        outcome = asked_failure(lease, error, retry=retry, after=after)
        return (await self.acarry(FailTasks((outcome,)), call="fail"))[0]

    async def asnooze(self, lease: Lease, delay: timedelta | float) -> Reported:
        """Put a leased task back for *delay*; the attempt is not counted."""
        outcome = GivenBack(lease, "snooze", seconds_from(delay, option="delay"))
        return (await self.acarry(GiveBackTasks((outcome,)), call="snooze"))[0]

    async def arelease(self, lease: Lease) -> Reported:
        """Give back a leased task that never started; the attempt is not counted."""
        return (await self.acarry(GiveBackTasks((GivenBack(lease, "release"),)), call="release"))[0]

    async def areap(self) -> Maintained:
        """Run one maintenance pass now: promote, reap, discard, unpark, prune."""
        done = Maintained()
        for command in maintenance_pass():
            more = True
            while more:
                more = done.add(await self.acarry(command, call="reap"))
        return done
