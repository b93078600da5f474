"""What keeps the queues tidy.

Each command is one bounded, guarded step, safe from any number of callers at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a reaper's pass took back: task ids by where they went.

    `leases` is how many lease rows are gone; of some of them no task may have been left.
    """

    queued: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    canceled: tuple[int, ...] = ()
    leases: int = 0

    def __len__(self) -> int:
        return len(self.queued) + len(self.dead) + len(self.canceled)


@dataclass(frozen=True, slots=True)
class Promoted:
    """How many delayed tasks became ready, and in how many seconds the next one is due."""

    promoted: int
    next_in: float | None


@dataclass(frozen=True, slots=True)
class Unparked:
    """How many parked tasks are ready again."""

    unparked: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """How many orphans have a lease row now, one that has run out."""

    adopted: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look around has found; the seconds are None if there is no such thing at all.

    Until the first lease ends, the first delayed task is due, the first time to live is over: in a
    system that is in order the first is never negative. `ready` is False also if nobody asked.
    `chores` are those that are due, `schedule_in` is until the next schedule is looked at.
    """

    lease_ends_in: float | None = None
    due_in: float | None = None
    discard_in: float | None = None
    parked: bool = False
    ready: bool = False
    chores: tuple[str, ...] = ()
    schedule_in: float | None = None


@dataclass(frozen=True, slots=True)
class LookAround(Command[Seen]):
    """Find out in one statement which steps have something to do; `ready`: look for that too."""

    ready: bool = True

    def answer(self) -> Answer[Seen]:
        [row] = yield Statement("maintenance/look_around", {"ready": self.ready})
        ends_in, due_in, discard_in, parked, ready, chores, schedule_in = row
        return Seen(ends_in, due_in, discard_in, parked, ready, tuple(chores), schedule_in)


@dataclass(frozen=True, slots=True)
class ReapLeases(Command[Reaped]):
    """Take back one batch of leases that ran out."""

    batch: int = 100

    def answer(self) -> Answer[Reaped]:
        *tasks, (_, _, leases) = yield Statement("maintenance/reap_leases", {"batch": self.batch})

        def of(state: str) -> tuple[int, ...]:
            return tuple(id_ for id_, went_to, _ in tasks if went_to == state)

        return Reaped(of("queued"), of("dead"), of("canceled"), leases)


@dataclass(frozen=True, slots=True)
class ReapOrphans(Command[Adopted]):
    """See that leased tasks which no lease row vouches for are taken back by the next ReapLeases.

    It reads all of live, so run it rarely.
    """

    batch: int = 1000

    def answer(self) -> Answer[Adopted]:
        rows = yield Statement("maintenance/reap_orphans", {"batch": self.batch})
        return Adopted(len(rows))


@dataclass(frozen=True, slots=True)
class PromoteTasks(Command[Promoted]):
    """Move one batch of delayed tasks that are due among the ready ones."""

    batch: int = 1000

    def answer(self) -> Answer[Promoted]:
        rows = yield Statement("maintenance/promote_tasks", {"batch": self.batch})
        promoted, next_in, _woken = rows[0]
        return Promoted(promoted, next_in)


@dataclass(frozen=True, slots=True)
class Discarded:
    """The ids of the queued tasks that were ended, since their time to live was over."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DiscardTasks(Command[Discarded]):
    """End one batch of queued tasks whose time to live is over."""

    batch: int = 1000

    def answer(self) -> Answer[Discarded]:
        rows = yield Statement("maintenance/discard_tasks", {"batch": self.batch})
        return Discarded(tuple(row[0] for row in rows))


@dataclass(frozen=True, slots=True)
class ParkTasks(Command[int]):
    """Set aside tasks of unknown types at a queue's front; answers how many."""

    queue: str
    batch: int = 1000

    def answer(self) -> Answer[int]:
        rows = yield Statement("maintenance/park_tasks", {"queue": self.queue, "batch": self.batch})
        return int(rows[0][0])


@dataclass(frozen=True, slots=True)
class UnparkTasks(Command[Unparked]):
    """Bring back one batch of parked tasks whose types are known now."""

    batch: int = 1000

    def answer(self) -> Answer[Unparked]:
        rows = yield Statement("maintenance/unpark_tasks", {"batch": self.batch})
        unparked, _woken = rows[0]
        return Unparked(unparked)


@dataclass(frozen=True, slots=True)
class CatchUpIds(Command[int | None]):
    """Move the sequence of task ids past every task, if a restore has left it behind.

    Answers with the id after which it goes on, or None if it was in order.
    """

    def answer(self) -> Answer[int | None]:
        [[moved]] = yield Statement("maintenance/catch_up_ids", {})
        return None if moved is None else int(moved)


@dataclass(frozen=True, slots=True)
class MakeDays(Command[int]):
    """See that the days ahead have their partitions."""

    def answer(self) -> Answer[int]:
        rows = yield Statement("maintenance/make_days", {})
        return int(rows[0][0])


@dataclass(frozen=True, slots=True)
class DropPastDays(Command[bool]):
    """Forget one step's worth of finished tasks; True while there is more to do."""

    batch: int = 5000

    def answer(self) -> Answer[bool]:
        rows = yield Statement("maintenance/drop_past_days", {"batch": self.batch})
        return bool(rows[0][0])
