"""Who is alive, and who wants a wake-up."""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement

# Whoever waits for this queue waits for every queue; none can have the empty name.
EVERY_QUEUE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatWorker(Command[None]):
    """Say that a worker is alive; one that stays silent for `alive_seconds` counts as gone."""

    instance: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    types: tuple[str, ...]
    alive_seconds: float = 60.0

    def answer(self) -> Answer[None]:
        yield Statement(
            "workers/beat_worker",
            {
                "instance": self.instance,
                "name": self.name,
                "host": self.host,
                "pid": self.pid,
                "queues": None if self.queues is None else list(self.queues),
                "types": list(self.types),
                "alive_seconds": self.alive_seconds,
            },
        )


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
        yield Statement(
            "workers/wait_for_tasks",
            {
                "instance": self.instance,
                "queues": list(self.queues),
                "wait_seconds": self.wait_seconds,
            },
        )
        [[horizon]] = yield Statement("workers/draw_horizon", {})
        return int(horizon)


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
