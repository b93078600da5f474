"""Store a task again, in another queue or with another payload."""

from __future__ import annotations

from dataclasses import replace

from wherry.app.asked import asked_copy
from wherry.commands.audit import Actor
from wherry.commands.tasks import QueuesOf
from wherry.domain.durations import Duration
from wherry.domain.task import Enqueued
from wherry.errors import NotFound
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right
from wherry.tasks.payload import encode_text


class Copying(Base):
    """The verb that makes a task after another one."""

    async def copy_task(
        self,
        caller: Caller,
        *,
        id: int,
        queue: str | None = None,
        payload_text: str | None = None,
        delay: Duration | None = None,
        purge: bool = False,
        reason: str | None = None,
    ) -> Enqueued:
        """Store a new task with the options of another one, but its key; due at once.

        *queue*, *payload_text* and *delay* take the place of its own. Takes `read` on the queue of
        the old one, `enqueue` on that of the new one, and for *purge*, which deletes the old one if
        it has ended, `admin` on its queue.
        """
        require_right(caller, Right.READ)
        require_right(caller, Right.ENQUEUE)
        if purge:
            require_right(caller, Right.ADMIN)
        asked = asked_copy(id, queue=queue, payload=None, delay=delay, purge=purge, reason=reason)
        [home] = await self.app.acarry(QueuesOf((asked.id,)), call="copy_task")
        if home is None or not caller.may(Right.READ, home):
            raise NotFound(id)
        caller.require(Right.ENQUEUE, asked.queue or home)
        if purge:
            caller.require(Right.ADMIN, home)
        # What is not edited may hold digits that no float has: it is not written anew for nothing.
        if payload_text is not None:
            asked = replace(asked, payload=encode_text(payload_text))
        return await self.app.astore_copy(asked, actor=Actor(caller.name, caller.peer or None))
