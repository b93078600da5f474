"""Look at queues, pause and resume them, and set their limits.

A pause stops leases and nothing else: enqueues, heartbeats, reports, retries and maintenance go on.
So does a limit that is reached. Both hold at once for every lease that begins from then on; what is
leased stays so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wherry.commands.base import Answer, Command, Statement
from wherry.commands.flow import CountStates
from wherry.domain.flow import OTHER, StateCount
from wherry.domain.limits import LimitSeen, LimitsSeen, QueueLimits
from wherry.domain.task import PausedType, QueueDepth, QueuePause, Resumed


@dataclass(frozen=True, slots=True)
class ListReadyQueues(Command[list[str]]):
    """Name the queues that have ready tasks, are not paused, and have room within their limits."""

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("queues/list_ready_queues", {})
        return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ListReadyOf(Command[list[str]]):
    """Name those of `queues` that ListReadyQueues would name: ready are tasks of whatever type."""

    queues: tuple[str, ...]

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("queues/list_ready_of", {"queues": list(self.queues)})
        return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ListQueues(Command[list[QueueDepth]]):
    """Count what each queue holds: one by one, or by the sums where there are many tasks.

    The sums are some seconds old; of delayed tasks that are due they tell no age. They tell a
    thousand queues and types apart: where tasks of others wait, more tasks are counted one by one.
    Beyond those, others stand together as OTHER.
    """

    count_most: int = 100_000
    count_most_untold: int = 1_000_000

    def answer(self) -> Answer[list[QueueDepth]]:
        [[rows]] = yield Statement("queues/guess_live", {})
        counted = rows <= self.count_most
        states = None if counted else (yield from CountStates().answer())
        if states is not None and rows <= self.count_most_untold:
            counted = any(not count.queue and _waits(count) for count in states.counts)
        found = yield Statement("queues/list_queues", {"counted": counted})
        depths = [
            replace(QueueDepth(*row[:9]), limits=QueueLimits.of_row(row[9:])) for row in found
        ]
        if counted or states is None:
            return depths
        of_queues = {depth.queue: depth for depth in depths}
        for count in states.counts:
            if not _waits(count):
                continue
            queue = count.queue or OTHER
            so_far = of_queues.get(queue) or QueueDepth(queue, 0, 0, 0, 0, None)
            of_queues[queue] = replace(
                so_far,
                ready=so_far.ready + count.ready,
                delayed=so_far.delayed + count.delayed,
                parked=so_far.parked + count.parked,
                leased=so_far.leased + count.leased,
                oldest_due_seconds=states.oldest_due_seconds.get(queue),
            )
        return [of_queues[queue] for queue in sorted(of_queues)]


def _waits(count: StateCount) -> bool:
    return bool(count.queued or count.leased)


@dataclass(frozen=True, slots=True)
class PauseQueue(Command[bool]):
    """Lease nothing more from a queue; False if it was paused already, which stays as it was.

    The queue need not hold a task. A lease that is under way may still take some.
    """

    queue: str
    actor: str | None = None
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        rows = yield Statement(
            "queues/pause_queue",
            {"queue": self.queue, "actor": self.actor, "reason": self.reason},
        )
        return bool(rows)


@dataclass(frozen=True, slots=True)
class ResumeQueue(Command[Resumed]):
    """Lease from a queue again, and wake who waits for its tasks; tells which types stay paused.

    `reason` is for the audit only.
    """

    queue: str
    reason: str | None = None

    @property
    def atomic(self) -> bool:
        # What it tells was so when it was done.
        return True

    def answer(self) -> Answer[Resumed]:
        [[resumed, _woken]] = yield Statement("queues/resume_queue", {"queue": self.queue})
        pauses = yield from ListPausedTypes().answer()
        still = tuple(each for each in pauses if each.queue in (None, self.queue))
        return Resumed(bool(resumed), still)


@dataclass(frozen=True, slots=True)
class SetQueueLimits(Command[bool]):
    """Let a queue have these limits and no others, or None; False if they were the same before.

    The queue need not hold a task. What was leased before, or by a lease that is under way, is
    counted against them, and never taken away. `reason` is for the audit only.
    """

    queue: str
    limits: QueueLimits | None
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        if self.limits is None:
            [[changed, _woken]] = yield Statement("queues/lift_limits", {"queue": self.queue})
        else:
            [[changed, _woken]] = yield Statement(
                "queues/set_limits",
                {
                    "queue": self.queue,
                    "max_running": self.limits.max_running,
                    "rate": self.limits.rate,
                    "per_seconds": self.limits.per_seconds,
                    "burst": self.limits.burst,
                },
            )
        return bool(changed)


@dataclass(frozen=True, slots=True)
class ListStarts(Command[dict[str, float | None]]):
    """Tell of those of `queues` (None: all) whose rate is limited when the next task may start.

    In seconds from now, negative if that has passed; None if none is ready, or the queue is paused.
    """

    queues: tuple[str, ...] | None

    def answer(self) -> Answer[dict[str, float | None]]:
        queues = None if self.queues is None else list(self.queues)
        rows = yield Statement("queues/list_starts", {"queues": queues})
        return dict(rows)


@dataclass(frozen=True, slots=True)
class ReadLimits(Command[LimitsSeen]):
    """Read the limits of the first `most` queues that have any, and whether rates are used up."""

    most: int

    def answer(self) -> Answer[LimitsSeen]:
        rows = yield Statement("queues/read_limits", {"most": self.most})
        seen = tuple(LimitSeen(*row[:-1]) for row in rows)
        return LimitsSeen(seen, rows[0][-1] if rows else 0)


@dataclass(frozen=True, slots=True)
class ListPausedTypes(Command[list[PausedType]]):
    """List the paused types, by name and queue."""

    def answer(self) -> Answer[list[PausedType]]:
        rows = yield Statement("queues/list_paused_types", {})
        return [PausedType(type, queue or None, *rest) for type, queue, *rest in rows]


@dataclass(frozen=True, slots=True)
class PauseType(Command[bool]):
    """Lease nothing more of a type, in one queue or (None) in all; False if it was so before.

    Its ready tasks are set aside by and by, so that they stand in nobody's way. A lease that is
    under way may still take some.
    """

    type: str
    queue: str | None = None
    actor: str | None = None
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        rows = yield Statement(
            "queues/pause_type",
            {
                "type": self.type,
                "queue": self.queue or "",
                "actor": self.actor,
                "reason": self.reason,
            },
        )
        return bool(rows)


@dataclass(frozen=True, slots=True)
class ResumeType(Command[Resumed]):
    """Lease a type again that was paused in that queue, or (None) in all; tells what still holds.

    The first of its tasks that were set aside are back at once, the others within seconds.
    `reason` is for the audit only.
    """

    type: str
    queue: str | None = None
    reason: str | None = None

    @property
    def atomic(self) -> bool:
        # What it tells was so when it was done.
        return True

    def answer(self) -> Answer[Resumed]:
        params = {"type": self.type, "queue": self.queue or ""}
        [[resumed, _woken]] = yield Statement("queues/resume_type", params)
        if resumed:
            # With a snapshot that knows of it.
            yield Statement("maintenance/unpark_tasks", {"batch": 1000})
        pauses = yield from ListPausedTypes().answer()
        still = tuple(each for each in pauses if each.type == self.type)
        if self.queue is None:
            return Resumed(bool(resumed), still)
        rows = yield Statement("queues/read_pause", {"queue": self.queue})
        return Resumed(bool(resumed), still, QueuePause(*rows[0]) if rows else None)
