"""Store a task again, with another payload or in another queue."""

from __future__ import annotations

from wherry.app.asked import asked_reason
from wherry.commands.audit import Actor, audited
from wherry.commands.cloning import CloneTask
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, GetTask, new_token
from wherry.domain.options import TaskSpec, check_id, check_name
from wherry.domain.task import Task
from wherry.errors import NotFound
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right
from wherry.tasks.payload import encode_text


class Cloning(Base):
    """The verb that makes a task after another one."""

    async def clone_task(
        self,
        caller: Caller,
        *,
        id: int,
        queue: str | None = None,
        payload_text: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Store a task anew, due at once, and return its id; the old one stays what it is.

        *queue* and *payload_text* take the place of its own. It has no key and no ttl: these were
        the old one's. Takes `admin` on the queue of the old one, and `enqueue` on that of the new.
        """
        require_right(caller, Right.ADMIN)
        why = asked_reason(reason)
        task = await self.app.acarry(GetTask(check_id(id), with_history=False), call="clone")
        if task is None or not (
            caller.may(Right.ADMIN, task.queue) or caller.may(Right.READ, task.queue)
        ):
            raise NotFound(id)
        caller.require(Right.ADMIN, task.queue)
        to = task.queue if queue is None else check_name(queue, option="queue")
        caller.require(Right.ENQUEUE, to)
        # What is stored may hold digits that no float has: it is not written anew for nothing.
        payload = task.payload_text if payload_text is None else encode_text(payload_text)
        [drawn] = await self.app.acarry(DrawTaskIds(1), call="clone")
        stored = EnqueueTasks((_spec(task, to, payload),), ids=(drawn,), token=new_token())
        actor = Actor(caller.name, caller.peer or None, why)
        return await self.app.acarry(audited(CloneTask(id, stored), actor), call="clone")


def _spec(task: Task, queue: str, payload: str) -> TaskSpec:
    return TaskSpec(
        queue=queue,
        type=task.type,
        priority=task.priority,
        delay_seconds=None,
        run_after=None,
        max_attempts=task.max_attempts,
        retry=task.retry,
        timeout_seconds=task.timeout_seconds,
        ttl_seconds=None,
        tags=task.tags,
        headers=task.headers,
        key_ttl_seconds=None,
        key=None,
        payload=payload,
    )
