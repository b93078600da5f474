"""What people ask about tasks, beside reading them: why one is where it is, and what time it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.why import MOST_AHEAD, Why, why
from wherry.domain.why_facts import Facts


@dataclass(frozen=True, slots=True)
class WhyTask(Command[Why]):
    """Tell why a task is where it is; also of an id that names none."""

    id: int

    def answer(self) -> Answer[Why]:
        rows = yield Statement("tasks/why_task", {"id": self.id, "most": MOST_AHEAD})
        # Whoever sends ids by hand may have stored one in two queues; any of them is answered.
        return why(Facts.of_row(rows[0])) if rows else Why.not_found(self.id)


@dataclass(frozen=True, slots=True)
class ReadNow(Command[datetime]):
    """Tell the moment, by the clock that tasks have their times from; in UTC."""

    def answer(self) -> Answer[datetime]:
        [[now]] = yield Statement("tasks/read_now", {})
        moment: datetime = now.astimezone(UTC)
        return moment
