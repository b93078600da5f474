"""Look at queues."""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.task import QueueDepth


@dataclass(frozen=True, slots=True)
class ListReadyQueues(Command[list[str]]):
    """Name the queues that have ready tasks."""

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("queues/list_ready_queues", {})
        return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ListQueues(Command[list[QueueDepth]]):
    """Count what each queue holds; reads all of live."""

    def answer(self) -> Answer[list[QueueDepth]]:
        rows = yield Statement("queues/list_queues", {})
        return [QueueDepth(*row) for row in rows]
