"""The calls of an App for operators: ask why, pause queues, see who works, tell workers what to do.

In their awaited form; `operators_blocking.py` is generated from this file. Nobody is waited for: a
worker hears of a directive at its next beat, and a lease that is under way may still take tasks of
a queue that was paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from wherry.app.asked import STEP, asked_copy, asked_due, asked_ids, asked_reason, asked_type_in
from wherry.app.asked_filter import asked_groups
from wherry.app.schedules import Schedules
from wherry.commands.audit import Actor
from wherry.commands.looking import WhyTask
from wherry.commands.queues import (
    ListPausedTypes,
    PauseQueue,
    PauseType,
    ResumeQueue,
    ResumeType,
    SetQueueLimits,
)
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.workers import DirectWorkers, ListWorkers
from wherry.config import DEFAULT_SEARCH_TIMEOUT
from wherry.domain.durations import Duration
from wherry.domain.filter import DeadGroups, FilterOptions
from wherry.domain.limits import QueueLimits
from wherry.domain.options import check_id, check_name, check_priority
from wherry.domain.task import Enqueued, PausedType, Replanned, Resumed
from wherry.domain.why import Why
from wherry.domain.worker import Directive, WorkerSeen
from wherry.errors import InvalidOption, NotFound
from wherry.tasks.payload import encode


class Operators(Schedules):
    """What operators ask of tasks, queues and workers, awaited."""

    async def awhy(self, id: int) -> Why:
        """Tell why a task is where it is, the most important reason first; changes nothing.

        Of an id that names no task the only reason is `not_found`.
        """
        return await self.acarry(WhyTask(check_id(id)), call="why")

    async def agroup_dead_tasks(
        self, *, timeout: Duration = DEFAULT_SEARCH_TIMEOUT, **filter: Unpack[FilterOptions]
    ) -> DeadGroups:
        """Group dead and failed tasks by what their errors have in common, the largest group first.

        *filter* is that of `list_tasks`. The newest 20,000 are looked at. A group's `fingerprint`
        is a filter, too: for listing, requeuing and purging it. Raises TimedOut as `list_tasks`.
        """
        look = asked_groups(timeout=timeout, **filter)
        return await self.acarry(look, call="group_dead_tasks")

    async def areprioritize(self, id: int, priority: int) -> Replanned:
        """Give a queued task another priority: CHANGED, LEASED or FINAL (then it is left alone).

        It stands behind those that have it already. Raises NotFound for an unknown id.
        """
        [answer] = await self.areprioritize_many([check_id(id)], priority)
        return _of_a_task(id, answer)

    async def areprioritize_many(self, ids: Iterable[int], priority: int) -> list[Replanned]:
        """Give queued tasks another priority by id; one answer for each, in order."""
        wanted, level = asked_ids(ids), check_priority(priority)
        answers: list[Replanned] = []
        for start in range(0, len(wanted), STEP):
            part = tuple(wanted[start : start + STEP])
            answers += await self.acarry(ReprioritizeTasks(part, level), call="reprioritize")
        return answers

    async def areschedule(
        self, id: int, *, run_after: datetime | None = None, delay: Duration | None = None
    ) -> Replanned:
        """Let a queued task run at another time: CHANGED, LEASED or FINAL (then it is left alone).

        Either at *run_after*, or in *delay* from now: 0 is at once. Raises NotFound for an unknown
        id.
        """
        [answer] = await self.areschedule_many([check_id(id)], run_after=run_after, delay=delay)
        return _of_a_task(id, answer)

    async def areschedule_many(
        self,
        ids: Iterable[int],
        *,
        run_after: datetime | None = None,
        delay: Duration | None = None,
    ) -> list[Replanned]:
        """Let queued tasks run at another time, by id; one answer for each, in order."""
        wanted, (at, seconds) = asked_ids(ids), asked_due(run_after, delay)
        answers: list[Replanned] = []
        for start in range(0, len(wanted), STEP):
            part = tuple(wanted[start : start + STEP])
            answers += await self.acarry(RescheduleTasks(part, at, seconds), call="reschedule")
        return answers

    async def acopy_task(
        self,
        id: int,
        *,
        payload: Mapping[str, Any] | None = None,
        queue: str | None = None,
        delay: Duration | None = None,
        purge: bool = False,
        reason: str | None = None,
    ) -> Enqueued:
        """Store a new task with the type and options of another one, all but its key, due at once.

        *payload*, *queue*, *delay*: in place of its own. The old one stays what it is; with *purge*
        it is deleted in the same transaction. Raises NotFound, InvalidTask, and NotFinal or Busy if
        the one to delete has not ended, or is in somebody's hands.
        """
        text = None if payload is None else encode(payload)
        return await self.astore_copy(
            asked_copy(id, queue=queue, payload=text, delay=delay, purge=purge, reason=reason)
        )

    async def apause_queue(self, queue: str, *, reason: str | None = None) -> bool:
        """Lease nothing more from a queue until it is resumed; all else goes on.

        The queue need not hold a task. False if it was paused already: then the first words stay.
        """
        name, why = check_name(queue, option="queue"), asked_reason(reason)
        return await self.acarry(PauseQueue(name, _name(self.actor), why), call="pause_queue")

    async def aresume_queue(self, queue: str, *, reason: str | None = None) -> Resumed:
        """Lease from a paused queue again; the answer is false if it was not paused.

        It tells which types stay paused there.
        """
        name, why = check_name(queue, option="queue"), asked_reason(reason)
        return await self.acarry(ResumeQueue(name, why), call="resume_queue")

    async def aset_queue_limits(
        self,
        queue: str,
        *,
        max_running: int | None = None,
        rate: int | None = None,
        per: Duration | None = None,
        burst: int | None = None,
        reason: str | None = None,
    ) -> bool:
        """Limit what runs of a queue: these are its limits from now on, and what is not named none.

        *max_running*: no more of its tasks are leased at once, over all workers. *rate*: no more of
        them start in *per* (a second if it is not given), and *burst* of them in one go (what comes
        in a second, one at least). What is leased already is counted and goes on. False if these
        were its limits before.
        """
        name, why = check_name(queue, option="queue"), asked_reason(reason)
        limits = QueueLimits.of(max_running=max_running, rate=rate, per=per, burst=burst)
        return await self.acarry(SetQueueLimits(name, limits, why), call="set_queue_limits")

    async def alist_paused_types(self) -> list[PausedType]:
        """List the types of which nothing is leased, by name and queue."""
        return await self.acarry(ListPausedTypes(), call="list_paused_types")

    async def apause_type(
        self, type: str, *, queue: str | None = None, reason: str | None = None
    ) -> bool:
        """Lease nothing more of a type until it is resumed, in *queue* or, without one, in all.

        Other types go on. False if it was paused so already: then the first words stay.
        """
        return await self.acarry(
            PauseType(*asked_type_in(type, queue), _name(self.actor), asked_reason(reason)),
            call="pause_type",
        )

    async def aresume_type(
        self, type: str, *, queue: str | None = None, reason: str | None = None
    ) -> Resumed:
        """Lease a paused type again, in just that queue or in all; false if it was not paused so.

        It tells where else the type stays paused, and if *queue* itself is.
        """
        command = ResumeType(*asked_type_in(type, queue), asked_reason(reason))
        return await self.acarry(command, call="resume_type")

    async def alist_workers(self) -> list[WorkerSeen]:
        """List the workers that were heard of in the last day, by name."""
        return await self.acarry(ListWorkers(), call="list_workers")

    async def adirect_workers(
        self,
        names: Iterable[str],
        directive: Directive | str,
        *,
        reason: str | None = None,
    ) -> int:
        """Ask the live workers of these names to `drain` or to `stop`, or, with `none`, to go on.

        One that drains leases nothing; what it runs goes on. Answers how many will hear of it, each
        at its next beat, within half a minute.
        """
        wanted = _names(names)
        try:
            asked = Directive(directive)
        except ValueError:
            known = ", ".join(Directive)
            raise InvalidOption("directive", directive, f"the directives are {known}") from None
        command = DirectWorkers(wanted, asked, _name(self.actor), asked_reason(reason))
        return await self.acarry(command, call="direct_workers")


def _of_a_task(id: int, answer: Replanned) -> Replanned:
    if answer is Replanned.UNKNOWN:
        raise NotFound(id)
    return answer


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else actor.name


def _names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        # A string is a sequence of strings, and never what anybody means here.
        raise InvalidOption("names", names, "must be a list of names, not str")
    return tuple(check_name(name, option="name") for name in names)
