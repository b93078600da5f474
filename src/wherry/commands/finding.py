"""Find tasks: page by page, or only how many there are.

Ids are the order of every listing. What no index leads to (an error's text, a field of the payload)
is looked for by reading, so a look may have a limit of time: it then raises TimedOut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from wherry.commands.base import Answer, Command, Rows, Statement
from wherry.domain.filter import Counted, DeadGroup, DeadGroups, Filter
from wherry.domain.options import HIGHEST_ID
from wherry.domain.state import FINAL, State
from wherry.domain.task import Page, Task

# Of payloads and results in a page: a thousand tasks could have two gigabytes of them.
PAGE_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListTasks(Command[Page]):
    """List tasks, newest first. One that moves meanwhile may be in two pages, or in none.

    `after`: only older ones than this; `before`: those that come just before it, which are newer.
    Large ones are fewer than `limit`: each of two statements ends with the task that reaches
    `limit_bytes`. What it left out is not read, and the page's `after` is set.
    """

    filter: Filter
    limit: int = 100
    after: int | None = None
    limit_bytes: int = PAGE_LIMIT_BYTES
    before: int | None = None
    within_seconds: float | None = None

    @property
    def atomic(self) -> bool:
        return self.within_seconds is not None

    @property
    def limit_seconds(self) -> float | None:
        return self.within_seconds

    def answer(self) -> Answer[Page]:
        yield from limit_time(self.within_seconds)
        if self.before is None:
            return (yield from self._page(self.after, newest=self.after is None))
        if self.before >= HIGHEST_ID:
            return Page((), None)
        newer: list[int] = []
        params = span_of(self.filter, least=self.before + 1) | {"limit_tasks": self.limit + 1}
        for kind, states in kinds_of(self.filter):
            rows = yield Statement(f"tasks/find_newer_{kind}", params | {"states": states})
            newer += [id_ for (id_,) in rows]
        nearest = sorted(set(newer))[: self.limit]
        if not nearest:
            return Page((), None)
        more = len(set(newer)) > self.limit
        page = yield from self._page(nearest[-1] + 1, least=self.before + 1, newest=not more)
        # At least the task that was named comes next.
        return replace(page, after=page.tasks[-1].id if page.tasks else None)

    def _page(self, after: int | None, *, newest: bool, least: int = 0) -> Answer[Page]:
        found: list[Rows] = []
        params = span_of(self.filter, least=least, after=after) | {
            "limit_tasks": self.limit + 1,
            "limit_bytes": self.limit_bytes,
        }
        for kind, states in kinds_of(self.filter):
            only_dead = kind == "finished" and self.filter.states & FINAL <= _BAD
            name = f"tasks/list_{'dead' if only_dead else kind}_tasks"
            found.append((yield Statement(name, params | {"states": states})))
        # Behind the last row of a statement that has more, the other's rows are not next.
        ends = [rows[-1][0] for rows in found if rows and rows[-1][-1]]
        oldest = max(ends, default=0)
        # Between the two statements a task may have finished: it is shown as it ended.
        shown = {row[0]: row[:-1] for rows in found for row in rows if row[0] >= oldest}
        ordered = sorted(shown.values(), key=lambda row: row[0], reverse=True)
        more = bool(ends) or len(ordered) > self.limit
        tasks = [Task.of_row(row) for row in ordered[: self.limit]]
        return Page(
            tuple(tasks),
            tasks[-1].id if more else None,
            tasks[0].id if tasks and not newest else None,
        )


@dataclass(frozen=True, slots=True)
class CountTasks(Command[Counted]):
    """Count the tasks that a filter wants, up to `most`."""

    filter: Filter
    most: int = 10_000
    within_seconds: float | None = None

    @property
    def atomic(self) -> bool:
        return self.within_seconds is not None

    @property
    def limit_seconds(self) -> float | None:
        return self.within_seconds

    def answer(self) -> Answer[Counted]:
        yield from limit_time(self.within_seconds)
        tasks = 0
        for kind, states in kinds_of(self.filter):
            left = self.most + 1 - tasks
            params = span_of(self.filter) | {"states": states, "most": left}
            [[found]] = yield Statement(f"tasks/count_{kind}_tasks", params)
            tasks += found
            if tasks > self.most:
                return Counted(self.most, True)
        return Counted(tasks, False)


@dataclass(frozen=True, slots=True)
class GroupDeadTasks(Command[DeadGroups]):
    """Group the newest dead and failed tasks that a filter wants by their errors.

    `most` tasks are looked at, `groups` groups are answered.
    """

    filter: Filter
    most: int = 20_000
    groups: int = 100
    within_seconds: float | None = None

    @property
    def atomic(self) -> bool:
        return self.within_seconds is not None

    @property
    def limit_seconds(self) -> float | None:
        return self.within_seconds

    def answer(self) -> Answer[DeadGroups]:
        yield from limit_time(self.within_seconds)
        states = sorted(str(state) for state in self.filter.states & _BAD)
        params = span_of(self.filter) | {"most": self.most, "groups": self.groups}
        rows = yield Statement("tasks/group_dead_tasks", params | {"states": states})
        groups = tuple(DeadGroup.of_row(row) for row in rows)
        *_, since, capped = rows[0] if rows else (None, False)
        return DeadGroups(groups, capped, since)


_BAD = frozenset({State.DEAD, State.FAILED})


def limit_time(seconds: float | None) -> Answer[None]:
    """End each statement that follows in this transaction after *seconds*."""
    if seconds is not None:
        yield Statement("tasks/limit_time", {"milliseconds": max(1, round(seconds * 1000))})


def kinds_of(filter: Filter) -> list[tuple[str, list[str]]]:
    """Return which tables have what is wanted, live and finished, and in which states."""
    final = sorted(str(state) for state in filter.states & FINAL)
    kinds = [("live", filter.live_states), ("finished", final)]
    return [(kind, states) for kind, states in kinds if states]


def span_of(filter: Filter, *, least: int = 0, after: int | None = None) -> dict[str, Any]:
    """Return what the statements take of a filter: ids from *least* up to, not with, *after*."""
    if filter.id is not None:
        least = max(least, filter.id)
        after = filter.id + 1 if after is None else min(after, filter.id + 1)
    return filter.params | {"least": least, "after": after}
