"""Storing tasks that were checked already, in its awaited form; the blocking one is generated.

Ids are drawn ahead, and each names one task. If the database goes back in time (an asynchronous
failover, a restore) it draws some of them once more: then those in stock are worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

import psycopg

from wherry.app.ids import TaskIds
from wherry.app.process import Process
from wherry.app.tracing import of_request
from wherry.commands.audit import Actor, audited
from wherry.commands.base import Command
from wherry.commands.copying import CopyTask
from wherry.commands.maintenance import CatchUpIds
from wherry.commands.parts import LEAST_TASKS, EnqueueInParts, NotPlain
from wherry.commands.schedules import RunSchedule
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.domain.options import TaskSpec
from wherry.domain.specs import Specs
from wherry.domain.task import Enqueued, ResultReader
from wherry.errors import IdTaken, WherryError
from wherry.tasks.task import AMBIENT
from wherry.transport.faults import is_taken_id

R = TypeVar("R")

# Makes the command of the ids that were drawn for it (None: the database draws them) and its token.
_Made: TypeAlias = Callable[[tuple[int, ...] | None, int], Command[R]]


class Storing(Process):
    """Stores tasks, awaited."""

    _ids: TaskIds

    async def aenqueue_specs(
        self, specs: Sequence[TaskSpec], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        """Store tasks that were checked already."""
        tracing = self.tracing
        if tracing is None or not specs:
            return await self._astore(of_request(specs), tx=tx, notify=notify)
        with tracing.sending(specs) as sending:
            answers = await self._astore(sending.specs, tx=tx, notify=notify)
            sending.stored(answers)
        return answers

    async def astore_copy(self, copy: CopyTask, *, actor: Actor | None = None) -> Enqueued:
        """Store a copy that was checked already; *actor* does it, or else who uses this App."""

        def made(ids: tuple[int, ...] | None, token: int) -> Command[Enqueued]:
            return audited(replace(copy, ids=ids, token=token), actor)

        stored = await self._acarried(made, 1, tx=None, call="copy_task")
        return stored.told_by(cast("ResultReader", self))

    async def astore_run(self, run: RunSchedule, *, actor: Actor | None = None) -> Enqueued:
        """Store a task of a schedule by hand; *actor* does it, or else who uses this App."""

        def made(ids: tuple[int, ...] | None, token: int) -> Command[Enqueued]:
            return audited(replace(run, ids=ids, token=token), actor)

        stored = await self._acarried(made, 1, tx=None, call="run_schedule")
        return stored.told_by(cast("ResultReader", self))

    async def _astore(self, specs: Sequence[TaskSpec], *, tx: Any, notify: bool) -> list[Enqueued]:
        if not specs:
            return []

        tx = self.ambient(tx)
        if tx is None and isinstance(specs, Specs) and len(specs) >= LEAST_TASKS:
            return await self._astore_in_parts(specs, notify=notify)
        return await self._astore_whole(tuple(specs), tx=tx, notify=notify)

    async def _astore_in_parts(self, specs: Specs, *, notify: bool) -> list[Enqueued]:
        if self.through_server:
            return await self._astore_whole(tuple(specs), tx=None, notify=notify)
        reader = cast("ResultReader", self)

        def made(ids: tuple[int, ...] | None, token: int) -> Command[list[Enqueued]]:
            # Without a server in between they are always drawn beforehand.
            assert ids is not None
            return EnqueueInParts(specs, ids, token, notify, reader)

        try:
            return await self._acarried(made, len(specs), tx=None, call="enqueue")
        except NotPlain:
            return await self._astore_whole(tuple(specs), tx=None, notify=notify)

    async def _astore_whole(
        self, specs: tuple[TaskSpec, ...], *, tx: Any, notify: bool
    ) -> list[Enqueued]:
        def made(ids: tuple[int, ...] | None, token: int) -> Command[list[Enqueued]]:
            return EnqueueTasks(specs, ids=ids, token=token, notify=notify)

        answers = await self._acarried(made, len(specs), tx=tx, call="enqueue")
        # Who is asked for a result is the App, which has both forms.
        reader = cast("ResultReader", self)
        return [answer.told_by(reader) for answer in answers]

    async def _acarried(self, made: _Made[R], n: int, *, tx: Any, call: str) -> R:
        """Carry what stores *n* tasks."""
        ids = None
        # A server draws the ids itself.
        if tx is None and not self.through_server:
            ids = self._ids.take(n) or await self._adrawn(n, call=call)
        token = new_token() if ids is not None else 0
        try:
            return await self.acarry(made(ids, token), tx=tx, call=call)
        except Exception as error:
            if not is_taken_id(error):
                raise
            # Nothing was stored; what is drawn now names nothing else.
            self._ids.forget()
            if ids is None:
                raise IdTaken(moved=await self._acaught_up()) from error
            await self.acarry(CatchUpIds(), call=call)
            again = made(await self._adrawn(n, call=call), new_token())
            return await self.acarry(again, tx=tx, call=call)

    async def _acaught_up(self) -> bool:
        """Move the ids on by a connection of our own: the caller's transaction has failed.

        False in the blocking form inside an event loop, and where no connection can be made.
        """
        try:
            await self.acarry(CatchUpIds(), call="enqueue")
        except (WherryError, psycopg.Error):
            return False
        return True

    async def _adrawn(self, n: int, *, call: str) -> tuple[int, ...]:
        drawn = await self.acarry(DrawTaskIds(self._ids.draw_for(n)), call=call)
        return self._ids.add(drawn, n=n)
