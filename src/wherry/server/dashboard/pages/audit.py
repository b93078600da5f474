"""The audit: who changed what by hand, when and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from wherry.commands.audit import AuditEntry
from wherry.server.dashboard.asking import Page, Shown, Visit, number_of
from wherry.server.dashboard.words import plural

ROWS: Final = 50
_MOST_IDS: Final = 6
# What was done, as people say it; an action that is not here is shown by its own name.
WORDS: Final = {
    "cancel_tasks": ("close", "Canceled", "task"),
    "requeue_tasks": ("again", "Requeued", "task"),
    "copy_task": ("copy", "Copied", "task"),
    "purge_tasks": ("trash", "Purged", "task"),
    "reprioritize_tasks": ("up", "Gave another priority to", "task"),
    "reschedule_tasks": ("clock", "Rescheduled", "task"),
    "pause_queue": ("pause", "Paused", "queue"),
    "resume_queue": ("play", "Resumed", "queue"),
    "pause_type": ("pause", "Paused", "type"),
    "resume_type": ("play", "Resumed", "type"),
    "set_queue_limits": ("filter", "Limited", "queue"),
    "add_schedule": ("schedules", "Added", "schedule"),
    "run_schedule": ("play", "Ran", "schedule"),
    "pause_schedule": ("pause", "Paused", "schedule"),
    "resume_schedule": ("play", "Resumed", "schedule"),
    "delete_schedule": ("trash", "Deleted", "schedule"),
    "direct_workers": ("workers", "Told", "worker"),
    "create_token": ("key", "Made", "token"),
    "revoke_token": ("key", "Revoked", "token"),
}
# What is done to one thing, which may have been so before.
_SO_BEFORE: Final = frozenset(
    {
        "pause_queue",
        "resume_queue",
        "pause_type",
        "resume_type",
        "set_queue_limits",
        "pause_schedule",
        "resume_schedule",
    }
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what an entry is about: a name, a text, and where it leads."""

    name: str
    text: str
    to: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """An entry of the audit as it is shown."""

    entry: AuditEntry
    drawing: str
    text: str
    parts: tuple[Part, ...]


async def show_audit(visit: Visit) -> Shown:
    """List what was done, newest first."""
    action, actor = visit.query.get("action", ""), visit.query.get("actor", "").strip()
    after = number_of(visit.query.get("after", "")) or None
    found = await visit.read(
        visit.service.list_audit,
        action=action or None,
        actor=actor or None,
        after=after,
        limit=ROWS + 1,
    )
    page = found[:ROWS]
    values = {
        "rows": [_done(visit, entry) for entry in page],
        "action": action,
        "actor": actor,
        "actions": [(name, f"{word} {what}s") for name, (_, word, what) in WORDS.items()],
        "next_after": page[-1].id if len(found) > ROWS else None,
        "is_later": after is not None,
    }
    return Shown("audit.html", "Audit", values)


def _done(visit: Visit, entry: AuditEntry) -> Done:
    drawing, word, what = WORDS.get(entry.action, ("audit", entry.action.replace("_", " "), ""))
    if entry.action in _SO_BEFORE:
        text = f"{word} a {what}" if entry.count else f"{word} a {what} that was so before"
    elif what:
        text = f"{word} {plural(entry.count, what)}"
    else:
        text = f"{word[:1].upper()}{word[1:]}: {entry.count:,}"
    return Done(entry, drawing, text, tuple(_parts(visit, entry.target)))


def _parts(visit: Visit, target: dict[str, Any]) -> Iterator[Part]:
    for name, value in target.items():
        if value is None or value is False or value == []:
            continue
        match name, value:
            case "ids", list():
                ids = _items(value)
                for id in ids[:_MOST_IDS]:
                    yield Part("", f"#{id}", visit.link("task", id=id, range=None))
                more = len(ids) - _MOST_IDS + int(target.get("more") or 0)
                if more > 0:
                    yield Part("", f"and {more:,} more")
            case "stored", int():
                yield Part("as", f"#{value}", visit.link("task", id=value, range=None))
            case "more", _:
                continue
            case "schedule", str():
                yield Part("", value, visit.link("schedule", name=value, range=None))
            case "queue", str():
                yield Part("queue", value, visit.link("tasks", queue=value, range=None))
            case "filter", dict():
                yield from _parts(visit, cast("dict[str, Any]", value))
            case _, list():
                items = _items(value)
                yield Part(_label(name), ", ".join(map(str, items)))
            case _, str():
                yield Part(_label(name), value)
            case _:
                yield Part(_label(name), json.dumps(value))


def _label(name: str) -> str:
    known = {"names": "worker", "directive": "to", "named": "token"}
    return known.get(name, name).replace("_", " ")


def _items(value: Any) -> list[Any]:
    return list(value)


PAGES = (Page("audit", show_audit, nav="audit"),)
