"""Look at what a requeue would make of a task, before it is done."""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement
from wherry.config import PAYLOAD_LIMIT_BYTES
from wherry.domain.task import RequeueAnswer


@dataclass(frozen=True, slots=True)
class Preview:
    """A task's payload as it is and as it would be, as JSON text; `answer` is a requeue's."""

    id: int
    queue: str
    before: str
    after: str | None
    answer: RequeueAnswer


@dataclass(frozen=True, slots=True)
class PreviewRequeue(Command[Preview | None]):
    """Show what `merge_payload` would make of the payload of one finished task; None: of no such.

    The statement merges as that of RequeueTasks does. What it shows may be hidden by the rules of
    whoever asks: that is not done here.
    """

    id: int
    merge_payload: str

    def answer(self) -> Answer[Preview | None]:
        rows = yield Statement(
            "tasks/preview_requeue",
            {
                "id": self.id,
                "merge_payload": self.merge_payload,
                "limit_bytes": PAYLOAD_LIMIT_BYTES,
            },
        )
        if not rows:
            return None
        [[queue, before, after, answer]] = rows
        return Preview(self.id, queue, before, after, RequeueAnswer(answer))
