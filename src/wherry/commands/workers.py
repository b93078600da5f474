"""Who is alive, what they are asked to do, and who wants a wake-up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.worker import Directive, HeldTask, WorkerSeen

# Whoever waits for this queue waits for every queue; none can have the empty name.
EVERY_QUEUE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatWorker(Command[Directive]):
    """Say that a worker is alive; one that stays silent for `alive_seconds` counts as gone.

    Answers what somebody has asked of it meanwhile. `types` None: it knows any type.
    """

    instance: str
    name: str
    host: str
    pid: int | None
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    alive_seconds: float = 60.0
    slots: int | None = None
    version: str | None = None
    memory_bytes: int | None = None
    # For how long it has heard no notification that it should hear; None: it hears, or need not.
    deaf_seconds: float | None = None

    def answer(self) -> Answer[Directive]:
        [directive] = yield from BeatWorkers((self,), self.alive_seconds).answer()
        return directive


@dataclass(frozen=True, slots=True)
class BeatWorkers(Command[list[Directive]]):
    """Beat for many workers in one statement; answers in their order.

    Of an instance that is named twice the last beat counts. Their own `alive_seconds` is not
    looked at.
    """

    beats: tuple[BeatWorker, ...]
    alive_seconds: float = 60.0

    def answer(self) -> Answer[list[Directive]]:
        lasts = {str(UUID(beat.instance)): beat for beat in self.beats}
        beats = [
            {
                "instance": instance,
                "name": beat.name,
                "host": beat.host,
                "pid": beat.pid,
                "queues": beat.queues,
                "types": beat.types,
                "slots": beat.slots,
                "version": beat.version,
                "memory_bytes": beat.memory_bytes,
                "deaf_seconds": beat.deaf_seconds,
            }
            for instance, beat in lasts.items()
        ]
        rows = yield Statement(
            "workers/beat_workers",
            {"beats": json.dumps(beats), "alive_seconds": self.alive_seconds},
        )
        directives = {instance: Directive(directive) for instance, directive in rows}
        return [directives[str(UUID(beat.instance))] for beat in self.beats]


@dataclass(frozen=True, slots=True)
class ListWorkers(Command[list[WorkerSeen]]):
    """List the workers that were heard of in the last day, by name."""

    def answer(self) -> Answer[list[WorkerSeen]]:
        rows = yield Statement("workers/list_workers", {})
        return [WorkerSeen.of_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class ListHeld(Command[list[HeldTask]]):
    """List what workers run just now, what has run for longest first; no more than `most`."""

    most: int = 1000

    def answer(self) -> Answer[list[HeldTask]]:
        rows = yield Statement("workers/list_held", {"most": self.most})
        return [HeldTask(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class DirectWorkers(Command[int]):
    """Ask the live workers of these names for something; answers how many will hear of it.

    It takes the place of what was asked before; NONE lets a draining worker go on.
    """

    names: tuple[str, ...]
    directive: Directive
    actor: str | None = None
    reason: str | None = None

    def answer(self) -> Answer[int]:
        rows = yield Statement(
            "workers/direct_workers",
            {
                "names": list(self.names),
                "directive": str(self.directive),
                "actor": self.actor,
                "reason": self.reason,
            },
        )
        return len(rows)


@dataclass(frozen=True, slots=True)
class LeaveWorker(Command[None]):
    """A worker says goodbye."""

    instance: str

    def answer(self) -> Answer[None]:
        yield Statement("workers/leave_worker", {"instance": self.instance})


@dataclass(frozen=True, slots=True)
class ForgetWorkers(Command[int]):
    """Forget one batch of workers that have not been heard of for a day."""

    batch: int = 1000

    def answer(self) -> Answer[int]:
        rows = yield Statement("workers/forget_workers", {"batch": self.batch})
        return len(rows)


@dataclass(frozen=True, slots=True)
class WaitForTasks(Command[int]):
    """Ask for wake-ups. Answers the horizon: what began before it may not have seen us waiting.

    Two transactions: the horizon counts only once the mark can be seen by others.
    """

    instance: str
    queues: tuple[str, ...]
    wait_seconds: float

    def answer(self) -> Answer[int]:
        yield _wait(self.instance, self.queues, self.wait_seconds)
        [[horizon]] = yield Statement("workers/draw_horizon", {})
        return int(horizon)


@dataclass(frozen=True, slots=True)
class KeepWaiting(Command[None]):
    """Ask for wake-ups for longer, before the time that was asked for is over."""

    instance: str
    queues: tuple[str, ...]
    wait_seconds: float

    def answer(self) -> Answer[None]:
        yield _wait(self.instance, self.queues, self.wait_seconds)


@dataclass(frozen=True, slots=True)
class TransactionsEnded(Command[bool]):
    """Whether every transaction that was in flight at the horizon has ended."""

    horizon: int

    def answer(self) -> Answer[bool]:
        rows = yield Statement("workers/transactions_ended", {"horizon": self.horizon})
        return bool(rows[0][0])


@dataclass(frozen=True, slots=True)
class StopWaiting(Command[None]):
    """No wake-ups are wanted any more."""

    instance: str
    queues: tuple[str, ...]

    def answer(self) -> Answer[None]:
        yield Statement(
            "workers/stop_waiting", {"instance": self.instance, "queues": list(self.queues)}
        )


@dataclass(frozen=True, slots=True)
class GetChannel(Command[str]):
    """The channel on which this schema notifies."""

    def answer(self) -> Answer[str]:
        rows = yield Statement("workers/get_channel", {})
        return str(rows[0][0])


def _wait(instance: str, queues: tuple[str, ...], wait_seconds: float) -> Statement:
    return Statement(
        "workers/wait_for_tasks",
        {"instance": instance, "queues": list(queues), "wait_seconds": wait_seconds},
    )
