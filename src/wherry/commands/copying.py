"""Store a task again as a new one: in another queue, or with a payload that somebody has mended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wherry.commands.base import Answer, Command, Row, Statement
from wherry.commands.tasks import EnqueueTasks, PurgeTasks, known_ids
from wherry.domain.options import TaskSpec
from wherry.domain.state import State
from wherry.domain.stored import decode
from wherry.domain.task import Enqueued, Purged
from wherry.errors import Busy, DecodeError, InvalidOption, NotFinal, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask(Command[Enqueued]):
    """Store a task that has the options of the task `id`, all but its key; due in `delay_seconds`.

    `queue` and `payload` (JSON text that was checked) take the place of its own. The old one stays
    what it is; with `purge` it is gone when the new one is there, if it has ended. Raises NotFound,
    NotFinal for a `purge` of what has not ended, Busy if somebody has it in hand just now.
    """

    id: int
    queue: str | None = None
    payload: str | None = None
    delay_seconds: float | None = None
    purge: bool = False
    reason: str | None = None
    # As of EnqueueTasks; there is one id.
    ids: tuple[int, ...] | None = None
    token: int = 0
    resent: bool = False

    @property
    def atomic(self) -> bool:
        return True

    def again(self) -> CopyTask:
        return replace(self, resent=True)

    def answer(self) -> Answer[Enqueued]:
        rows = yield Statement("tasks/read_original", {"id": self.id})
        if not rows:
            return (yield from self._without_original())
        spec, state = self._spec(rows[0]), State(rows[0][-1])
        if self.purge and not state.is_final:
            raise NotFinal(
                f"only what has ended is taken away, and task {self.id} is {state}: leave purge"
                " out, or cancel that task first"
            )
        [stored] = yield from EnqueueTasks(
            (spec,), ids=self.ids, token=self.token, resent=self.resent
        ).answer()
        if self.purge:
            # Last: sent again, the enqueue has waited for the transaction of the first time.
            [purged] = yield from PurgeTasks((self.id,)).answer()
            if purged is Purged.NOT_FINAL:
                raise Busy(self.id)
            if purged is Purged.UNKNOWN and not self.resent:
                raise NotFound(self.id)
        return stored

    def _without_original(self) -> Answer[Enqueued]:
        if self.resent and self.purge and self.ids is not None:
            # It may be gone because the first time went through.
            known = yield from known_ids(self.ids, {})
            [id_] = self.ids
            if known[id_]:
                return Enqueued(id_, True)
        raise NotFound(self.id)

    def _spec(self, row: Row) -> TaskSpec:
        queue, type_, payload, priority, attempts, retry, timeout, ttl, tags, headers, _ = row
        try:
            policy = decode(retry, what="retry policy") if retry else None
            named = decode(headers, what="headers") if headers else {}
        except DecodeError as error:
            raise InvalidOption("id", self.id, f"cannot be copied: {error}") from None
        return TaskSpec(
            queue=self.queue or queue,
            type=type_,
            priority=priority,
            delay_seconds=self.delay_seconds,
            run_after=None,
            max_attempts=attempts,
            retry=policy,
            timeout_seconds=timeout,
            ttl_seconds=ttl,
            tags=tuple(tags or ()),
            headers=named,
            key_ttl_seconds=None,
            key=None,
            payload=payload if self.payload is None else self.payload,
        )
