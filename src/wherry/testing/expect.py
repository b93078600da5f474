"""Says which tasks were enqueued, and shows what is there instead if they were not.

A payload is compared by what is asked of it: an object may hold more names than those given, and
whatever compares equal is equal, `unittest.mock.ANY` among others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from wherry.app.app import App
from wherry.commands.finding import ListTasks
from wherry.domain.filter import Filter
from wherry.domain.task import Task
from wherry.errors import DecodeError
from wherry.tasks.task import TaskType

PAGE = 1000
MOST_SHOWN = 20
LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task must be like; None leaves a thing open."""

    type: str
    payload: Mapping[str, Any] | None
    queue: str | None
    key: str | None
    priority: int | None
    tags: Sequence[str] | None
    state: str | None
    count: int | None

    def check(self, there: Sequence[Task]) -> list[Task]:
        """Return the tasks that are like this; AssertionError if there are too few or too many."""
        __tracebackhide__ = True
        found = [task for task in there if next(self.differences(task), None) is None]
        if len(found) == self.count or (self.count is None and found):
            return found
        raise AssertionError("\n".join(self._complaint(found, there)))

    def differences(self, task: Task) -> Iterator[str]:
        """Yield in words what is not as wanted."""
        if task.type != self.type:
            yield f"type is {task.type}"
        for name in ("queue", "key", "priority", "state"):
            wanted, seen = getattr(self, name), getattr(task, name)
            if wanted is not None and wanted != seen:
                yield f"{name} is {_shown(seen)}"
        if self.tags is not None and not set(self.tags) <= set(task.tags):
            yield f"tags are {_shown(list(task.tags))}"
        if self.payload is not None:
            try:
                yield from _different(self.payload, task.payload, "payload")
            except DecodeError as error:
                yield str(error)

    def _complaint(self, found: Sequence[Task], there: Sequence[Task]) -> Iterator[str]:
        count = "at least one task" if self.count is None else _tasks(self.count)
        yield f"expected {count} {self}, found {len(found) or 'none'}"
        alike = [task for task in there if task.type == self.type]
        others = [task for task in there if task.type != self.type]
        if not there:
            yield "there are no tasks at all"
        for heading, some in ((f"of type {self.type}:", alike), ("of other types:", others)):
            if some:
                yield heading
            for task in some[:MOST_SHOWN]:
                reasons = "; ".join(self.differences(task)) if some is alike else ""
                yield f"  {_line(task)}{f'  <- {reasons}' if reasons else ''}"
            if len(some) > MOST_SHOWN:
                yield f"  … and {len(some) - MOST_SHOWN} more"

    def __str__(self) -> str:
        said = [self.type]
        for name in ("queue", "key", "priority", "tags", "state", "payload"):
            value = getattr(self, name)
            if value is not None:
                said.append(f"{name}={_shown(value)}")
        return " ".join(said)


def expect_enqueued(
    app: App,
    type: TaskType[..., Any] | str,
    payload: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    key: str | None = None,
    priority: int | None = None,
    tags: Sequence[str] | None = None,
    state: str | None = None,
    count: int | None = None,
    tx: Any = None,
) -> list[Task]:
    """Return the tasks of *type* in the App's database that hold *payload*, the oldest first.

    Raises AssertionError, which shows what is there, unless there are exactly *count* (any number
    but zero if it is not given). Finished tasks count too. With *tx*, tasks of the transaction
    open there are seen.
    """
    __tracebackhide__ = True
    wanted = _wanted(type, payload, queue, key, priority, tags, state, count)
    return wanted.check(_all_tasks(app, tx))


async def aexpect_enqueued(
    app: App,
    type: TaskType[..., Any] | str,
    payload: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    key: str | None = None,
    priority: int | None = None,
    tags: Sequence[str] | None = None,
    state: str | None = None,
    count: int | None = None,
    tx: Any = None,
) -> list[Task]:
    """Do what `expect_enqueued` does, for tests that run in an event loop."""
    __tracebackhide__ = True
    wanted = _wanted(type, payload, queue, key, priority, tags, state, count)
    return wanted.check(await _aall_tasks(app, tx))


def _wanted(
    type: TaskType[..., Any] | str,
    payload: Mapping[str, Any] | None,
    queue: str | None,
    key: str | None,
    priority: int | None,
    tags: Sequence[str] | None,
    state: str | None,
    count: int | None,
) -> Wanted:
    name = type if isinstance(type, str) else type.name
    return Wanted(name, payload, queue, key, priority, tags, state, count)


def _all_tasks(app: App, tx: Any) -> list[Task]:
    tasks: list[Task] = []
    after: int | None = None
    while True:
        page = app.carry(ListTasks(Filter(), PAGE, after), tx=tx, call="expect_enqueued")
        tasks += page.tasks
        after = page.after
        if after is None:
            return tasks[::-1]


async def _aall_tasks(app: App, tx: Any) -> list[Task]:
    tasks: list[Task] = []
    after: int | None = None
    while True:
        page = await app.acarry(ListTasks(Filter(), PAGE, after), tx=tx, call="expect_enqueued")
        tasks += page.tasks
        after = page.after
        if after is None:
            return tasks[::-1]


def _different(wanted: object, seen: object, path: str) -> Iterator[str]:
    if isinstance(wanted, Mapping) and isinstance(seen, dict):
        theirs = cast("dict[object, object]", seen)
        for name, value in cast("Mapping[object, object]", wanted).items():
            if name in theirs:
                yield from _different(value, theirs[name], f"{path}.{name}")
            else:
                yield f"{path}.{name} is not there"
        return
    if isinstance(wanted, list) and isinstance(seen, list):
        values, others = cast("list[object]", wanted), cast("list[object]", seen)
        if len(values) == len(others):
            for index, value in enumerate(values):
                yield from _different(value, others[index], f"{path}[{index}]")
            return
    if wanted != seen:
        yield f"{path} is {_shown(seen)}"


def _line(task: Task) -> str:
    key = "" if task.key is None else f" key={_shown(task.key)}"
    payload = _shortened(task.payload_text)
    return f"#{task.id} {task.type} queue={_shown(task.queue)}{key} {task.state} {payload}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        text = repr(value)
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _tasks(count: int) -> str:
    return f"{count} task" if count == 1 else f"{count or 'no'} tasks"
