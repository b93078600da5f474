"""The calls of an App, in their awaited form; `calls_blocking.py` is generated from this file.

A call builds a command and has it carried; it decides nothing about the queue by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, Unpack

from wherry.app.asked import (
    STEP,
    aasked_tasks,
    asked_failure,
    asked_ids,
    asked_lease_seconds,
    asked_patch,
    asked_queues,
    asked_reason,
    asked_requeue,
    asked_task,
    asked_task_name,
    asked_types,
    requeue_parts,
    result_of,
)
from wherry.app.asked_filter import asked_count, asked_page
from wherry.app.operators import Operators
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.queues import ListQueues, ListReadyQueues
from wherry.commands.remote import PollTasks
from wherry.commands.tasks import CancelTasks, GetTask, PurgeTasks
from wherry.config import (
    DEFAULT_LEASE_FOR,
    DEFAULT_QUEUE,
    DEFAULT_SEARCH_TIMEOUT,
    LONGEST_POLL_SECONDS,
)
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.filter import Counted, FilterOptions
from wherry.domain.lease import Lease, Reported
from wherry.domain.options import EnqueueOptions, check_flag, check_id, check_integer, check_name
from wherry.domain.outcome import Completed, GivenBack
from wherry.domain.task import (
    Canceled,
    Enqueued,
    Page,
    Purged,
    QueueDepth,
    RequeueAnswer,
    Requeued,
    Task,
)
from wherry.errors import KeyTaken, NotFound
from wherry.maintenance.steps import Maintained, maintenance_pass
from wherry.tasks.payload import encode_result
from wherry.tasks.registry import Registry
from wherry.tasks.task import AMBIENT
from wherry.worker.context import warn_of_waiting


class Calls(Operators):
    """Everything an App can be asked, awaited."""

    registry: Registry

    async def aenqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        notify: bool = True,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Store one task by the name of its type; *options* are those of `TaskType.using`.

        With *tx* the task exists if and only if that transaction commits. A key that already names
        a task is answered with that task's id and `created=False`; while the transaction that
        stores it is open, this call waits for it. Raises InvalidTask before anything is sent.
        """
        spec = asked_task(self.registry, type, {} if payload is None else payload, options)
        check_flag(notify, option="notify")
        return (await self.aenqueue_specs([spec], tx=tx, notify=notify))[0]

    async def aenqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        """Store many tasks, all or none: each a mapping with `type`, `payload` and any option.

        Answers in their order; *tx* and *notify* are of the whole call. Raises InvalidTask, naming
        the index of the one that was refused.
        """
        specs = aasked_tasks(self.registry, tasks)
        check_flag(notify, option="notify")
        return await self.aenqueue_specs(specs, tx=tx, notify=notify)

    async def aget_task(
        self, id: int | None = None, *, queue: str | None = None, key: str | None = None
    ) -> Task | None:
        """Read a task with its history, by id or by key; None if there is none (any more).

        A key names a task within its queue, which is `default` if none is given.
        """
        look = asked_task_name(id, queue=queue, key=key)
        return await self.acarry(look, call="get_task")

    async def alist_tasks(
        self,
        *,
        limit: int = 100,
        after: int | None = None,
        before: int | None = None,
        timeout: Duration = DEFAULT_SEARCH_TIMEOUT,
        **filter: Unpack[FilterOptions],
    ) -> Page:
        """List tasks, newest first and without their histories; the page's `after` gets the next.

        *filter*: `id`, `state` (one or several), `queue`, `type`, `tag`, `key`, `worker`, `error`
        (a part of the last error's text), `payload` (an object that it holds), `older_than`,
        `created_after`, `created_before`, `finished_after`, `finished_before`.
        *limit* is 1 to 1,000 a page. One of large tasks holds fewer, by some 16 MiB of payloads and
        results (4 MiB from a server): there are more as long as `after` is not None. *before*, of
        a page, gets the page before it. Raises TimedOut for a search that takes longer than
        *timeout*, a minute at most.
        """
        look = asked_page(limit=limit, after=after, before=before, timeout=timeout, **filter)
        return await self.acarry(look, call="list_tasks")

    async def acount_tasks(
        self,
        *,
        most: int = 10_000,
        timeout: Duration = DEFAULT_SEARCH_TIMEOUT,
        **filter: Unpack[FilterOptions],
    ) -> Counted:
        """Count tasks, up to *most* (100,000 at most); *filter* is that of `list_tasks`.

        `capped` in the answer says that there are more. Raises TimedOut as `list_tasks` does.
        """
        look = asked_count(most=most, timeout=timeout, **filter)
        return await self.acarry(look, call="count_tasks")

    async def alist_queues(self) -> list[QueueDepth]:
        """Count what each queue holds; above 100,000 tasks by sums that are some seconds old."""
        return await self.acarry(ListQueues(), call="list_queues")

    async def aresult(self, id: int, *, timeout: Duration) -> Any:
        """Wait for a task's stored result.

        Raises TaskFailed, TaskDead, TaskCanceled, ResultNotStored, NotFound, or TimeoutError after
        *timeout*. Inside a handler it can wait for its own slot: it logs a warning there.
        """
        seconds = seconds_from(timeout, option="timeout")
        deadline = monotonic() + seconds
        # Without the history, which can be long, and is not asked for.
        look = GetTask(check_id(id), with_history=False)
        warn_of_waiting(id)
        pause = 0.01
        while True:
            task = await self.acarry(look, call="result")
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
        [answer] = await self.acancel_many([check_id(id)], reason=reason)
        if answer is Canceled.UNKNOWN:
            raise NotFound(id)
        return answer

    async def acancel_many(
        self, ids: Iterable[int], *, reason: str | None = None
    ) -> list[Canceled]:
        """Cancel tasks by id; one answer for each, in order, independent of the others'."""
        wanted, reason = asked_ids(ids), asked_reason(reason)
        answers: list[Canceled] = []
        for start in range(0, len(wanted), STEP):
            part = tuple(wanted[start : start + STEP])
            answers += await self.acarry(CancelTasks(part, reason), call="cancel")
        return answers

    async def arequeue(self, id: int, *, without_key: bool = False) -> Requeued:
        """Put a finished task back; its attempts start again, its token and history stay.

        Raises KeyTaken if its key names another task meanwhile, NotFound for an unknown id. A task
        that has not finished is answered NOT_FINAL and left alone.
        """
        [requeued] = await self.arequeue_many([check_id(id)], without_key=without_key)
        if requeued.answer is RequeueAnswer.UNKNOWN:
            raise NotFound(id)
        if requeued.answer is RequeueAnswer.KEY_TAKEN:
            raise KeyTaken(id, key=requeued.key or "", taken_by=requeued.taken_by or 0)
        return requeued

    async def arequeue_many(
        self,
        ids: Iterable[int],
        *,
        without_key: bool = False,
        delay: Duration = 0.0,
        per_second: float | None = None,
        to_queue: str | None = None,
        merge_payload: Mapping[str, Any] | None = None,
    ) -> list[Requeued]:
        """Put finished tasks back by id; one answer for each, in order.

        The first waits for *delay*; with *per_second* no more than that become ready in a second.
        With *to_queue* they go into that queue, with their history and without their keys.
        *merge_payload* changes each payload as a JSON merge patch does (None removes a member).
        """
        asked = asked_requeue(
            without_key=without_key,
            delay=delay,
            per_second=per_second,
            to_queue=to_queue,
            merge_payload=asked_patch(merge_payload),
        )
        answers: list[Requeued] = []
        for part in requeue_parts(asked, asked_ids(ids)):
            answers += await self.acarry(part, call="requeue")
        return answers

    async def apurge(self, id: int) -> Purged:
        """Delete a finished task with its history and its key.

        A task that has not finished is answered NOT_FINAL and left alone. Raises NotFound for an
        unknown id.
        """
        [answer] = await self.apurge_many([check_id(id)])
        if answer is Purged.UNKNOWN:
            raise NotFound(id)
        return answer

    async def apurge_many(self, ids: Iterable[int]) -> list[Purged]:
        """Delete finished tasks by id; one answer for each, in order."""
        wanted = asked_ids(ids)
        answers: list[Purged] = []
        for start in range(0, len(wanted), STEP):
            part = tuple(wanted[start : start + STEP])
            answers += await self.acarry(PurgeTasks(part), call="purge")
        return answers

    async def alease(
        self,
        *,
        worker: str,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        max_tasks: int = 1,
        lease_for: Duration = DEFAULT_LEASE_FOR,
        types: Sequence[str] | None = None,
        wait: Duration = 0.0,
    ) -> list[Lease]:
        """Lease up to *max_tasks* tasks from *queues*, in their order (`*` stands for all).

        *max_tasks* is 1 to 1,000; *lease_for* is at most a day. Waits up to *wait* for one. Whoever
        leases must heartbeat, and report, in time.
        """
        check_name(worker, option="worker")
        check_integer(max_tasks, option="max_tasks", least=1, most=1000)
        lease_seconds = asked_lease_seconds(lease_for)
        deadline = monotonic() + seconds_from(wait, option="wait")
        served, known = asked_queues(queues), asked_types(types)
        if self.through_server:
            return await self._apoll(served, known, worker, max_tasks, lease_seconds, deadline)
        while True:
            names = served
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

    async def _apoll(
        self,
        queues: Sequence[str],
        types: tuple[str, ...] | None,
        worker: str,
        max_tasks: int,
        lease_seconds: float,
        deadline: float,
    ) -> list[Lease]:
        """Lease through a server, which waits in our place."""
        while True:
            left = max(0.0, deadline - monotonic())
            if types is not None and not types:
                # To a server no types are all of them.
                await asyncio.sleep(left)
                return []
            command = PollTasks(
                worker=worker,
                queues=tuple(queues),
                limit=max_tasks,
                types=types,
                lease_seconds=lease_seconds,
                wait_seconds=min(left, LONGEST_POLL_SECONDS),
            )
            leases = await self.acarry(command, call="lease")
            left = deadline - monotonic()
            if leases or left <= 0:
                return leases
            # A server that is about to end answers before its time.
            await asyncio.sleep(min(left, random.uniform(0.05, 0.1)))

    async def aheartbeat(
        self, leases: Sequence[Lease], *, lease_for: Duration = DEFAULT_LEASE_FOR
    ) -> list[Reported]:
        """Let leases end *lease_for* from now, and none sooner than it would have.

        Answers EXTENDED, CANCEL_REQUESTED (extended; let go), BUSY or LOST, in order.
        """
        seconds = asked_lease_seconds(lease_for)
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
        after: Duration | None = None,
    ) -> Reported:
        """Record a failed attempt: REQUEUED or DEAD, or FAILED with `retry=False`.

        *after* takes the place of the stored policy's delay. ALREADY_DONE, BUSY or LOST as ever.
        """
        outcome = asked_failure(lease, error, retry=retry, after=after)
        return (await self.acarry(FailTasks((outcome,)), call="fail"))[0]

    async def asnooze(self, lease: Lease, delay: Duration) -> Reported:
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
