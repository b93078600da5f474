"""Change when queued tasks run, and which of them first. What workers have is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wherry.commands.base import Answer, Command, Rows, Statement
from wherry.commands.tasks import known_ids
from wherry.domain.task import Replanned


@dataclass(frozen=True, slots=True)
class ReprioritizeTasks(Command[list[Replanned]]):
    """Give queued tasks another priority; answers in the order of `ids`.

    They stand behind those that have it already.
    """

    ids: tuple[int, ...]
    priority: int

    def answer(self) -> Answer[list[Replanned]]:
        rows = yield Statement(
            "tasks/reprioritize_tasks", {"ids": list(self.ids), "priority": self.priority}
        )
        return (yield from _replanned(self.ids, rows))


@dataclass(frozen=True, slots=True)
class RescheduleTasks(Command[list[Replanned]]):
    """Let queued tasks run at another time; answers in the order of `ids`.

    `run_after`, or `delay_seconds` from now by the database's clock. A time that has come is now.
    """

    ids: tuple[int, ...]
    run_after: datetime | None = None
    delay_seconds: float = 0.0

    def answer(self) -> Answer[list[Replanned]]:
        params = {"run_after": self.run_after, "delay_seconds": self.delay_seconds}
        rows = yield Statement("tasks/reschedule_tasks", {"ids": list(self.ids)} | params)
        return (yield from _replanned(self.ids, rows))


def _replanned(ids: tuple[int, ...], rows: Rows) -> Answer[list[Replanned]]:
    answers = {row[0]: Replanned(row[1]) for row in rows}
    known = yield from known_ids(ids, answers)
    answers |= {id_: Replanned.FINAL if k else Replanned.UNKNOWN for id_, k in known.items()}
    return [answers[id_] for id_ in ids]
