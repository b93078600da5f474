"""Store tasks."""

from __future__ import annotations

from collections.abc import Sequence

from wherry.domain.failure import type_name
from wherry.domain.options import Options, TaskSpec
from wherry.domain.task import Enqueued
from wherry.errors import InvalidOption, InvalidTask, WherryError
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, queue_of
from wherry.server.service.values import Asked
from wherry.tasks.payload import encode_text
from wherry.transport.faults import is_refusal


class Enqueuing(Base):
    """The verbs that store tasks."""

    async def enqueue(self, caller: Caller, *, task: Asked) -> Enqueued:
        """Store one task; a key that already names one is answered with that one."""
        notify = task.notify is not False
        [enqueued] = await self.app.aenqueue_specs([_spec(caller, task)], tx=None, notify=notify)
        return enqueued

    async def enqueue_batch(
        self,
        caller: Caller,
        *,
        tasks: Sequence[Asked | WherryError],
        all_or_nothing: bool = False,
        notify: bool = True,
    ) -> list[Enqueued | WherryError]:
        """Store many tasks; one answer for each, in order. A bad one spoils no other.

        An error among *tasks* is what the door could not decode. With *all_or_nothing* the first
        error is raised, and nothing is stored.
        """
        self.refuse_too_many(tasks, of="tasks")
        answers: list[Enqueued | WherryError] = []
        specs: list[TaskSpec] = []
        places: list[int] = []
        for n, task in enumerate(tasks):
            error = task if isinstance(task, WherryError) else None
            if not isinstance(task, WherryError):
                try:
                    specs.append(_item(caller, task, index=n if all_or_nothing else None))
                    places.append(n)
                except WherryError as refusal:
                    error = refusal
            if error is not None and all_or_nothing:
                if isinstance(error, InvalidTask) and error.index is None:
                    error.index = n
                raise error
            # What is good is put in its place below.
            answers.append(error if error is not None else InvalidTask("not stored"))
        if all_or_nothing:
            return list(await self.app.aenqueue_specs(specs, tx=None, notify=notify))
        for n, answer in zip(places, await self._store(specs, notify=notify), strict=True):
            answers[n] = answer
        return answers

    async def _store(
        self, specs: Sequence[TaskSpec], *, notify: bool
    ) -> list[Enqueued | WherryError]:
        """Store tasks. What PostgreSQL refuses is parted until it stands alone."""
        try:
            return list(await self.app.aenqueue_specs(specs, tx=None, notify=notify))
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(specs) == 1:
                return [InvalidTask(f"PostgreSQL refused this task: {type_name(type(error))}")]
        middle = len(specs) // 2
        first = await self._store(specs[:middle], notify=notify)
        return [*first, *await self._store(specs[middle:], notify=notify)]


def _item(caller: Caller, task: Asked, *, index: int | None) -> TaskSpec:
    if task.notify is not None:
        reason = "is one for the whole batch: give it beside the tasks"
        raise InvalidOption("notify", task.notify, reason, index=index)
    return _spec(caller, task, index=index)


def _spec(caller: Caller, task: Asked, *, index: int | None = None) -> TaskSpec:
    # Who may not enqueue there is not told what else is wrong.
    caller.require(Right.ENQUEUE, queue_of(task.options, index=index))
    chosen = Options.said(task.options, index=index)
    payload = encode_text(task.payload_text or "{}", index=index)
    return chosen.spec(task.type, payload, index=index)
