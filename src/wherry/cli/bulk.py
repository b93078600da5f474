"""Does one thing to many tasks: page by page, at a rate, and telling what became of each.

Nothing is loaded but one page at a time. A run goes from the newest task to the oldest and looks
at no task twice; it leaves out what came to match after it began, so that a task that is requeued
and dies again is not requeued a second time. Running it again after an interruption is safe.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, cast

from wherry.config import DEFAULT_SEARCH_TIMEOUT
from wherry.errors import InvalidTask

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.domain.filter import FilterOptions
    from wherry.domain.task import Page, Task

PAGE = 500
# By what tasks can be chosen, beside their states.
CHOOSING: Final = (
    *("queue", "type", "tag", "key", "worker", "error", "payload", "older_than"),
    *("created_after", "created_before", "finished_after", "finished_before", "fingerprint"),
)
# With a rate, what may be done in this time is done at once.
_STEP_SECONDS = 0.5
# Of the tasks that were left alone so many are named; all are counted.
MOST_NAMED = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one task: `answer` in the verb's words."""

    id: int
    answer: str
    taken_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """Something that is done to tasks, and how it is told."""

    name: str
    # Which answers mean that it was done, each with its word.
    done: dict[str, str]
    # The other answers that there are, each with its sentence.
    left: dict[str, str]
    # Those of the other answers that somebody has to do something about.
    needs_somebody: frozenset[str] = frozenset()
    carry: Callable[[App, Sequence[int]], list[Answer]]

    @property
    def title(self) -> str:
        """The verb at the beginning of a sentence."""
        return self.name.capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which tasks a filter chooses; what is None does not narrow."""

    states: tuple[str, ...]
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    key: str | None = None
    worker: str | None = None
    error: str | None = None
    payload: str | None = None
    older_than: timedelta | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    fingerprint: str | None = None

    @property
    def options(self) -> FilterOptions:
        """What is said of the tasks, as the App takes it."""
        given: dict[str, Any] = {name: getattr(self, name) for name in CHOOSING}
        return cast("FilterOptions", {"state": self.states} | given)

    @property
    def narrows(self) -> bool:
        """Whether anything but the states was asked for."""
        return any(getattr(self, name) is not None for name in CHOOSING)

    def page(
        self,
        app: App,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        timeout: timedelta = DEFAULT_SEARCH_TIMEOUT,
    ) -> Page:
        """Read one page, newest first."""
        return app.list_tasks(
            limit=limit, after=after, before=before, timeout=timeout, **self.options
        )


@dataclass(slots=True)
class Tally:
    """What became of the tasks so far."""

    answers: Counter[str] = field(default_factory=Counter)
    left: list[Answer] = field(default_factory=list)
    # So many were asked for last, and no answer has come.
    unknown: int = 0

    @property
    def total(self) -> int:
        """How many tasks were looked at."""
        return self.answers.total()

    def add(self, answers: Sequence[Answer], verb: Verb) -> None:
        """Count answers to what was asked, and keep those of tasks that were left alone."""
        self.unknown = 0
        for answer in answers:
            self.answers[answer.answer] += 1
            if answer.answer not in verb.done and len(self.left) < MOST_NAMED:
                self.left.append(answer)

    def done(self, verb: Verb) -> int:
        """How many tasks it was done to."""
        return sum(n for answer, n in self.answers.items() if answer in verb.done)

    def fields(self, verb: Verb, *, complete: bool) -> dict[str, Any]:
        """Return the answer for JSON."""
        return {
            "verb": verb.name,
            "complete": complete,
            "tasks": self.total,
            "answers": dict(sorted(self.answers.items())),
            "left": [
                {"id": left.id, "answer": left.answer}
                | ({} if left.taken_by is None else {"taken_by": left.taken_by})
                for left in self.left
            ],
        }


class Pace:
    """Keeps a run to so many tasks a second, on average from its beginning."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self.step = PAGE if rate is None else max(1, min(PAGE, math.floor(rate * _STEP_SECONDS)))
        self._began_at = monotonic()

    def wait(self, done: int) -> None:
        """Sleep until *done* tasks are not too many."""
        if self.rate is not None:
            sleep(max(0.0, self._began_at + done / self.rate - monotonic()))


def pages(app: App, chosen: Chosen, *, size: int) -> Iterator[Sequence[Task]]:
    """Yield what was chosen when this began, newest first, and nothing that came later.

    The cut is by the database's clock: a task counts if it is as old as asked for, and older than
    this run.
    """
    began_at = monotonic()
    asked = chosen.older_than or timedelta()
    after: int | None = None
    while True:
        old = replace(chosen, older_than=asked + timedelta(seconds=monotonic() - began_at))
        page = old.page(app, limit=size, after=after)
        if page.tasks:
            yield page.tasks
        if page.after is None:
            return
        after = page.after


def steps(app: App, ids: Sequence[int] | None, chosen: Chosen, pace: Pace) -> Iterator[list[int]]:
    """Yield the ids to work on, one step at a time: those given, or those chosen."""
    if ids is not None:
        for start in range(0, len(ids), pace.step):
            yield list(ids[start : start + pace.step])
        return
    for tasks in pages(app, chosen, size=pace.step):
        yield [task.id for task in tasks]


def run(
    app: App,
    verb: Verb,
    *,
    ids: Sequence[int] | None,
    chosen: Chosen,
    rate: float | None,
    tally: Tally,
    told: Callable[[int], object],
) -> None:
    """Do it to each task, filling *tally* on the way, also when it raises in the middle."""
    pace = Pace(rate)
    for step in steps(app, ids, chosen, pace):
        pace.wait(tally.total)
        tally.unknown = len(step)
        try:
            tally.add(verb.carry(app, step), verb)
        except InvalidTask:
            # Refused before anything was sent.
            tally.unknown = 0
            raise
        told(tally.total)
