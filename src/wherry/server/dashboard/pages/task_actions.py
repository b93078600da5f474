"""What can be done to one task: cancel it, put it back. How it is copied is in task_copying.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wherry.domain.state import FINAL, State
from wherry.domain.task import Canceled, RequeueAnswer, Task
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Field, Question, Visit, Went
from wherry.server.dashboard.task_words import STATES, asked_id

REASON: Final = Field("reason", "Reason", hint="Kept in the audit.")
_KEY: Final = Field(
    "without_key",
    "Key",
    value="no",
    hint="A key names one task. If another task has it by now, this one can go on without.",
    choices=(("no", "Keep its key"), ("yes", "Go on without the key")),
)


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a task's page."""

    to: str
    text: str
    drawing: str
    kind: str = ""


def buttons(visit: Visit, task: Task) -> list[Button]:
    """Return what this visitor can do to a task in its state."""
    found: list[Button] = []
    if Right.ENQUEUE in visit.caller.rights:
        edit = visit.link("task-edit", id=task.id, range=None)
        copy = visit.link("task-copy", id=task.id, range=None)
        found = [Button(edit, "Edit and run again", "again"), Button(copy, "Copy…", "copy")]
    if not visit.may(Right.ADMIN, task.queue):
        return found
    if task.state in FINAL:
        to = visit.link("task-requeue", id=task.id, range=None)
        purge = visit.link("tasks-purge", ids=[task.id], range=None)
        return [*found, Button(to, "Requeue", "again"), Button(purge, "Purge", "trash", "danger")]
    if task.cancel_requested_at is not None:
        return found
    if task.state is State.QUEUED:
        when = visit.link("tasks-reschedule", ids=[task.id], range=None)
        level = visit.link("tasks-reprioritize", ids=[task.id], range=None)
        found += [Button(when, "Reschedule", "clock"), Button(level, "Priority", "up")]
    to = visit.link("task-cancel", id=task.id, range=None)
    return [*found, Button(to, "Cancel", "close", "danger")]


async def ask_cancel(visit: Visit) -> Question:
    """Ask before a task is canceled."""
    task = await asked_task(visit)
    text = "It is taken out of its queue, and does not run."
    if task.state is State.LEASED:
        text = (
            "Its worker is told at its next heartbeat, within seconds, and stops it; if it is done"
            " before, that stands."
        )
    return Question(
        title=f"Cancel task {task.id}?",
        text=text,
        button="Cancel task",
        back=visit.link("task", id=task.id),
        leave="Leave it",
        danger=True,
        facts=facts(task),
        fields=(REASON,),
        kept=(("id", str(task.id)),),
    )


async def cancel(visit: Visit) -> Went:
    """Cancel a task."""
    id = asked_id(visit)
    answer = await visit.service.cancel_task(visit.caller, id=id, reason=reason_of(visit))
    said = {
        Canceled.CANCELED: f"Task {id} is canceled.",
        Canceled.REQUESTED: f"The worker of task {id} is told to stop it.",
    }
    to = visit.link("task", id=id)
    return Went(to, said.get(answer, f"Task {id} had ended already."), is_good=answer in said)


async def ask_requeue(visit: Visit) -> Question:
    """Ask before a task is put back."""
    task = await asked_task(visit)
    return Question(
        title=f"Requeue task {task.id}?",
        text="It goes back into its queue as it was enqueued, at once and with all its attempts"
        " anew; its history stays.",
        button="Requeue task",
        back=visit.link("task", id=task.id),
        facts=facts(task),
        fields=(*((_KEY,) if task.key is not None else ()), REASON),
        kept=(("id", str(task.id)),),
    )


async def requeue(visit: Visit) -> Went:
    """Put a finished task back."""
    id = asked_id(visit)
    answered = await visit.service.requeue_task(
        visit.caller,
        id=id,
        without_key=visit.form.get("without_key") == "yes",
        reason=reason_of(visit),
    )
    is_back = answered.answer is RequeueAnswer.QUEUED
    said = f"Task {id} is back in its queue." if is_back else f"Task {id} has not ended."
    return Went(visit.link("task", id=id), said, is_good=is_back)


async def asked_task(visit: Visit) -> Task:
    """Return the task that is to be changed. Raises PermissionDenied, NotFound."""
    task = await visit.read(visit.service.get_task, id=asked_id(visit))
    visit.caller.require(Right.ADMIN, task.queue)
    return task


def facts(task: Task) -> tuple[tuple[str, str], ...]:
    """Return what is said of a task before something is done to it."""
    _, word = STATES[task.state]
    return (("Type", task.type), ("Queue", task.queue), ("State", word))


def reason_of(visit: Visit) -> str | None:
    """Return the reason that a form gives."""
    return visit.form.get("reason", "").strip() or None


ACTIONS = (
    Action("task-cancel", ask_cancel, cancel, nav="tasks"),
    Action("task-requeue", ask_requeue, requeue, nav="tasks"),
)
