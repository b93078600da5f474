"""Storing tasks that were checked already, in its awaited form; the blocking one is generated.

Ids are drawn ahead, and each names one task. If the database goes back in time (an asynchronous
failover, a restore) it draws some of them once more: then those in stock are worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from wherry.app.ids import TaskIds
from wherry.app.process import Process
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks
from wherry.domain.options import TaskSpec
from wherry.domain.task import Enqueued, ResultReader
from wherry.tasks.task import AMBIENT
from wherry.transport.faults import is_taken_id


class Storing(Process):
    """Stores tasks, awaited."""

    _ids: TaskIds

    async def aenqueue_specs(
        self, specs: Sequence[TaskSpec], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        """Store tasks that were checked already."""
        if not specs:
            return []
        tx = self.ambient(tx)
        ids = None
        # A server draws the ids itself.
        if tx is None and not self.through_server:
            ids = self._ids.take(len(specs)) or await self._adrawn(len(specs))
        command = EnqueueTasks(tuple(specs), ids=ids, notify=notify)
        try:
            answers = await self.acarry(command, tx=tx, call="enqueue")
        except Exception as error:
            if ids is None or not is_taken_id(error):
                raise
            # Nothing was stored; what is drawn now names nothing else.
            self._ids.forget()
            command = replace(command, ids=await self._adrawn(len(specs)))
            answers = await self.acarry(command, tx=tx, call="enqueue")
        # Who is asked for a result is the App, which has both forms.
        app = cast("ResultReader", self)
        return [answer.told_by(app) for answer in answers]

    async def _adrawn(self, n: int) -> tuple[int, ...]:
        drawn = await self.acarry(DrawTaskIds(self._ids.draw_for(n)), call="enqueue")
        return self._ids.add(drawn, n=n)
