"""Store a task again as a new one, as a person does who has mended what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wherry.commands.base import Answer, Command
from wherry.commands.tasks import EnqueueTasks


@dataclass(frozen=True, slots=True)
class CloneTask(Command[int]):
    """Store one task that was made after the task `source`, and answer with its id.

    `task` has one spec, and an id that was drawn ahead, so that it can be sent again.
    """

    source: int
    task: EnqueueTasks

    @property
    def atomic(self) -> bool:
        return self.task.atomic

    def again(self) -> CloneTask:
        return replace(self, task=self.task.again())

    def answer(self) -> Answer[int]:
        [enqueued] = yield from self.task.answer()
        return enqueued.id
