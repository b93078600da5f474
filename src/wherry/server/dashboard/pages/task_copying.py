"""Copies of a task: as it is, in another queue, or with a payload that somebody has mended."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from wherry.domain.durations import length_of
from wherry.domain.state import FINAL
from wherry.domain.task import Task
from wherry.errors import InvalidOption, PermissionDenied
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Field, Question, Visit, Went
from wherry.server.dashboard.hiding import Rules, shown_json
from wherry.server.dashboard.pages.task_actions import REASON, facts, reason_of
from wherry.server.dashboard.task_words import asked_id

# A longer payload is not edited in a form, which may not be so large: a character has up to twelve
# bytes there (site.py has the limit).
_MOST_EDITED: Final = 20_000
_OPTIONS: Final = "a new task with all options of this one but its key"


async def ask_copy(visit: Visit) -> Question:
    """Ask in which queue a copy is stored, and when it is due."""
    task = await _task(visit)
    return _question(
        visit,
        task,
        title=f"Copy task {task.id}?",
        text=f"Stores {_OPTIONS}, and with its payload as that is stored.",
        button="Store a copy",
    )


async def ask_edit(visit: Visit) -> Question:
    """Ask with which payload a task is run again."""
    task = await _task(visit)
    payload = await _editable(visit, task)
    lines = min(18, payload.count("\n") + 3)
    return _question(
        visit,
        task,
        Field("payload", "Payload", value=payload, lines=lines),
        title=f"Edit task {task.id} and run it again?",
        text=f"Stores {_OPTIONS}, and with the payload that stands here.",
        button="Run again",
    )


def _question(
    visit: Visit, task: Task, *first: Field, title: str, text: str, button: str
) -> Question:
    fields = [
        *first,
        Field("queue", "Queue", value=task.queue),
        Field("delay", "Delay", hint="Such as 30s, 10m or 2h. At once if this is empty."),
    ]
    if task.state in FINAL and visit.may(Right.ADMIN, task.queue):
        choices = (("no", "Stays as it is"), ("yes", "Is deleted, with its attempts"))
        fields.append(Field("purge", f"Task {task.id}", value="no", choices=choices))
    return Question(
        title=title,
        text=text,
        button=button,
        back=visit.link("task", id=task.id),
        facts=facts(task),
        fields=(*fields, REASON),
        kept=(("id", str(task.id)),),
    )


async def copy(visit: Visit) -> Went:
    """Store a copy."""
    return await _copied(visit, None)


async def edit(visit: Visit) -> Went:
    """Store a copy with an edited payload."""
    payload = await _editable(visit, await _task(visit))
    edited = visit.form.get("payload", "").replace("\r\n", "\n").strip()
    # What nobody edited goes on digit by digit as it is stored.
    return await _copied(visit, None if edited == payload.strip() else edited)


async def _copied(visit: Visit, payload: str | None) -> Went:
    id = asked_id(visit)
    stored = await visit.service.copy_task(
        visit.caller,
        id=id,
        queue=visit.form.get("queue") or None,
        payload_text=payload,
        delay=_delay(visit.form.get("delay", "").strip()),
        purge=visit.form.get("purge") == "yes",
        reason=reason_of(visit),
    )
    told = f"Task {stored.id} was stored after task {id}."
    return Went(visit.link("task", id=stored.id), told)


def _delay(said: str) -> timedelta | None:
    if not said:
        return None
    try:
        delay = length_of(said)
    except OverflowError:
        raise InvalidOption("delay", said, "that is longer than can be counted") from None
    if delay is None:
        raise InvalidOption("delay", said, "is no length of time: write 30s, 10m or 2h")
    return delay


async def _editable(visit: Visit, task: Task) -> str:
    """Return the payload to edit. Raises PermissionDenied, InvalidOption if it cannot be here.

    What is hidden could not be put back with certainty: what stood in a list's second place may
    stand in its first after an edit.
    """
    if len(task.payload_text) <= _MOST_EDITED:
        payload = await visit.json(task.payload_text, of="payload")
        if payload != shown_json(task.payload_text, of="payload", rules=Rules()):
            raise PermissionDenied(
                f"the payload of task {task.id} cannot be edited here, since parts of it are hidden"
                " on these pages and would be lost: copy the task as it is, or send it the whole"
                f" payload with wherry tasks copy {task.id} --payload"
            )
        if len(payload) <= _MOST_EDITED:
            return payload
    told = f"is too long to be edited here (more than {_MOST_EDITED:,} characters)"
    raise InvalidOption("payload", "…", f"{told}: use wherry tasks copy {task.id} --payload")


async def _task(visit: Visit) -> Task:
    return await visit.read(visit.service.get_task, id=asked_id(visit))


ACTIONS = (
    Action("task-copy", ask_copy, copy, nav="tasks", right=Right.ENQUEUE),
    Action("task-edit", ask_edit, edit, nav="tasks", right=Right.ENQUEUE),
)
