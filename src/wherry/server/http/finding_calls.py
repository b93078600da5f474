"""Tasks are found and counted over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType

from wherry.app.asked_filter import held_text
from wherry.domain.task import Task
from wherry.server.http import filter_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import read_id, read_instant, read_seconds
from wherry.server.http.task_calls import task_body, text_of
from wherry.wire.filter import read_place, write_place
from wherry.wire.tasks import write_page_token

_PAGE_SIZE: Final = 100
# Of payloads and results in one page: a thousand tasks could have two gigabytes of them.
_MOST_CHARACTERS: Final = 16 * 1024 * 1024
_PLAIN: Final = ("queue", "type", "tag", "key", "worker", "error", "fingerprint")
_MOMENTS: Final = ("created_after", "created_before", "finished_after", "finished_before")


async def list_tasks(call: Call, query: bodies.ListTasksQuery) -> Reply:
    """List one page of tasks."""
    page = await call.service.list_tasks(
        call.caller,
        **of_query(query),
        limit=_PAGE_SIZE if query.page_size is None else query.page_size,
        **read_place(query.page_token or ""),
        limit_bytes=_MOST_CHARACTERS,
    )
    shown = _fitting(page.tasks)
    # What did not fit begins the next page.
    after = page.after if len(shown) == len(page.tasks) else shown[-1].id
    answer = bodies.ListTasksResponse(
        tasks=[task_body(task) for task in shown],
        next_page_token=next_page(after),
        previous_page_token=UNSET if page.before is None else write_place(None, page.before),
    )
    return Reply(answer)


def _fitting(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return as many tasks, from the first, as one page may hold: one at least."""
    characters = 0
    for n, task in enumerate(tasks):
        characters += len(task.payload_text) + len(task.result_text or "")
        if characters > _MOST_CHARACTERS and n:
            return tasks[:n]
    return tasks


def next_page(after: int | None) -> str | UnsetType:
    """Return what gets the next page; nothing if there is none."""
    return UNSET if after is None else write_page_token(after)


async def count_tasks(call: Call, query: bodies.CountTasksQuery) -> Reply:
    """Count tasks."""
    most: dict[str, Any] = {} if query.most is None else {"most": query.most}
    counted = await call.service.count_tasks(call.caller, **of_query(query), **most)
    return Reply(bodies.CountTasksResponse(tasks=counted.tasks, capped=counted.capped))


def of_query(query: bodies.TaskQuery) -> dict[str, Any]:
    """Return what a query says of tasks, unchecked, and how long their search may take."""
    return {
        "state": query.state or None,
        "payload": held_text(query.payload) if query.payload else None,
        "timeout": read_seconds(query.timeout, option="timeout"),
        **_narrowing(query),
    }


def filter_of(wanted: bodies.TaskFilter) -> dict[str, Any]:
    """Return what a filter in a body says, unchecked, by the names of FilterOptions."""
    payload = wanted.payload
    return {
        "state": wanted.states or None,
        "payload": None if payload is UNSET else text_of(payload),
        **_narrowing(wanted, at="selection.filter."),
    }


def _narrowing(wanted: bodies.Narrowing, *, at: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(wanted, name) for name in _PLAIN}
    found["id"] = None if wanted.id is None else read_id(wanted.id)
    found["older_than"] = read_seconds(wanted.older_than, option=f"{at}older_than")
    for name in _MOMENTS:
        found[name] = read_instant(getattr(wanted, name), option=f"{at}{name}")
    return found
