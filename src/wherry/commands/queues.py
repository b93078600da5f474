"""Look at queues, pause and resume them.

A pause stops leases and nothing else: enqueues, heartbeats, reports, retries and maintenance go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.task import QueueDepth


@dataclass(frozen=True, slots=True)
class ListReadyQueues(Command[list[str]]):
    """Name the queues that have ready tasks and are not paused."""

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("queues/list_ready_queues", {})
        return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ListReadyOf(Command[list[str]]):
    """Name those of `queues` that have ready tasks, of whatever type, and are not paused."""

    queues: tuple[str, ...]

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("queues/list_ready_of", {"queues": list(self.queues)})
        return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ListQueues(Command[list[QueueDepth]]):
    """Count what each queue holds; reads all of live."""

    def answer(self) -> Answer[list[QueueDepth]]:
        rows = yield Statement("queues/list_queues", {})
        return [QueueDepth(*row) for row in rows]


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
class ResumeQueue(Command[bool]):
    """Lease from a queue again, and wake who waits for its tasks; False if it was not paused.

    `reason` is for the audit only.
    """

    queue: str
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        [[resumed, _woken]] = yield Statement("queues/resume_queue", {"queue": self.queue})
        return bool(resumed)
