"""The audit: who changed what by hand, written in the transaction of the change itself.

What is audited stands in one table, `CHANGES`: what people and tokens do to tasks, queues, workers
and tokens that are not theirs. Enqueuing, leasing and reporting are not in it, nor is what programs
do by `app.cancel()`: only who says who they are (`Actor`) leaves rows.

A change that found nothing to do is written too, with count 0; a dry run is not. Where an answer
was lost and the command sent again, the first may have written a row already: then the second says
what the second one did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar, cast

from wherry.commands.base import Answer, Command, Statement, name_of
from wherry.commands.copying import CopyTask
from wherry.commands.declaring import AddSchedule
from wherry.commands.queues import PauseQueue, PauseType, ResumeQueue, ResumeType, SetQueueLimits
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.schedules import (
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from wherry.commands.tasks import CancelTasks, PurgeTasks, RequeueTasks
from wherry.commands.tokens import CreateToken, RevokeToken
from wherry.commands.workers import DirectWorkers
from wherry.domain.patch import members_of
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer, Resumed

R = TypeVar("R")

# Of tasks that were named by id so many are written out, and all are counted.
MOST_NAMED: Final = 1000


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does it, as the audit says: `peer` is where from, `reason` why."""

    name: str
    peer: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited(Command[R], Generic[R]):
    """Another command, which leaves a row in the audit if and only if it happens."""

    inner: Command[R]
    actor: Actor
    action: str
    target: Mapping[str, Any]
    count: Callable[[R], int]
    # What only the answer tells of the target.
    made: Callable[[R], Mapping[str, Any]] = lambda _: {}

    @property
    def atomic(self) -> bool:
        return True

    @property
    def brief(self) -> bool:
        return self.inner.brief

    def again(self) -> Command[R]:
        return replace(self, inner=self.inner.again())

    def answer(self) -> Answer[R]:
        answer = yield from self.inner.answer()
        yield Statement(
            "audit/note_change",
            {
                "actor": self.actor.name,
                "peer": self.actor.peer or None,
                "action": self.action,
                "target": json.dumps({**self.target, **self.made(answer)}),
                "count": self.count(answer),
                "reason": self.actor.reason,
            },
        )
        return answer


@dataclass(frozen=True, slots=True)
class _Change:
    """How a kind of command is written down."""

    target: Callable[[Any], dict[str, Any]]
    count: Callable[[Any], int]
    made: Callable[[Any], dict[str, Any]] = lambda _: {}


_OfTasks = CancelTasks | RequeueTasks | PurgeTasks | ReprioritizeTasks | RescheduleTasks


def _ids(command: _OfTasks) -> dict[str, Any]:
    target: dict[str, Any] = {"ids": command.ids[:MOST_NAMED]}
    if len(command.ids) > MOST_NAMED:
        target["more"] = len(command.ids) - MOST_NAMED
    return target


def _type(command: PauseType | ResumeType) -> dict[str, Any]:
    return {"type": command.type} | ({"queue": command.queue} if command.queue else {})


def _resumed(answer: Resumed) -> int:
    return int(answer.changed)


def _replanned(answers: list[Replanned]) -> int:
    return sum(answer is Replanned.CHANGED for answer in answers)


CHANGES: Final[dict[type[Command[Any]], _Change]] = {
    CancelTasks: _Change(
        _ids, lambda answers: sum(a in (Canceled.CANCELED, Canceled.REQUESTED) for a in answers)
    ),
    RequeueTasks: _Change(
        lambda command: (
            _ids(command)
            | ({"without_key": True} if command.without_key else {})
            | ({"per_second": command.per_second} if command.per_second else {})
            | ({"to_queue": command.to_queue} if command.to_queue else {})
            | ({"payload": members_of(command.merge_payload)} if command.merge_payload else {})
        ),
        lambda answers: sum(each.answer is RequeueAnswer.QUEUED for each in answers),
    ),
    ReprioritizeTasks: _Change(
        lambda command: _ids(command) | {"priority": command.priority}, _replanned
    ),
    RescheduleTasks: _Change(
        lambda command: (
            _ids(command)
            | (
                {"delay_seconds": command.delay_seconds}
                if command.run_after is None
                else {"run_after": command.run_after.isoformat()}
            )
        ),
        _replanned,
    ),
    CopyTask: _Change(
        lambda command: (
            {"ids": [command.id]}
            | ({"queue": command.queue} if command.queue else {})
            | ({"edited": True} if command.payload is not None else {})
            | ({"purged": True} if command.purge else {})
        ),
        lambda _stored: 1,
        lambda stored: {"stored": stored.id},
    ),
    PurgeTasks: _Change(_ids, lambda answers: sum(a is Purged.PURGED for a in answers)),
    PauseQueue: _Change(lambda command: {"queue": command.queue}, int),
    ResumeQueue: _Change(lambda command: {"queue": command.queue}, _resumed),
    AddSchedule: _Change(lambda command: {"schedule": command.schedule.name}, int),
    RunSchedule: _Change(
        lambda command: {"schedule": command.name},
        lambda _stored: 1,
        lambda stored: {"stored": stored.id},
    ),
    PauseSchedule: _Change(lambda command: {"schedule": command.name}, int),
    ResumeSchedule: _Change(lambda command: {"schedule": command.name}, int),
    DeleteSchedule: _Change(lambda command: {"schedule": command.name}, int),
    PauseType: _Change(_type, int),
    ResumeType: _Change(_type, _resumed),
    SetQueueLimits: _Change(
        lambda command: (
            {"queue": command.queue}
            | {
                name: value
                for name, value in (asdict(command.limits) if command.limits else {}).items()
                if value is not None
            }
        ),
        int,
    ),
    DirectWorkers: _Change(
        lambda command: {"names": command.names, "directive": command.directive}, int
    ),
    CreateToken: _Change(
        lambda command: {
            "id": command.id,
            "name": command.name,
            "rights": command.rights,
            "queues": command.queues,
            "lasts_seconds": command.lasts_seconds,
        },
        lambda info: int(info is not None),
    ),
    RevokeToken: _Change(
        lambda command: {"named": command.named}, lambda revoked: int(bool(revoked and revoked.now))
    ),
}


def audited(command: Command[R], actor: Actor | None, **target: Any) -> Command[R]:
    """Return *command* so that it leaves a row, if somebody acts and it is of a kind that does.

    *target* is added to what the row says of its target, such as the filter that chose the tasks.
    """
    change = CHANGES.get(cast("type[Command[Any]]", type(command)))
    if actor is None or change is None:
        return command
    if actor.reason is None:
        # Some commands carry it themselves, for others than the audit.
        actor = replace(actor, reason=getattr(command, "reason", None))
    return Audited(
        inner=command,
        actor=actor,
        action=name_of(type(command)),
        target=change.target(command) | target,
        count=change.count,
        made=change.made,
    )


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the audit; `target` is as it was written."""

    id: int
    at: datetime
    actor: str
    peer: str | None
    action: str
    target: dict[str, Any]
    count: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAudit(Command[list[AuditEntry]]):
    """List the audit, newest first; `after` is the id of the last row of the page before."""

    limit: int = 100
    after: int | None = None
    action: str | None = None
    actor: str | None = None

    def answer(self) -> Answer[list[AuditEntry]]:
        rows = yield Statement(
            "audit/list_audit",
            {
                "limit_rows": self.limit,
                "after": self.after,
                "action": self.action,
                "actor": self.actor,
            },
        )
        return [
            AuditEntry(id, at, actor, peer, action, json.loads(target), count, reason)
            for id, at, actor, peer, action, target, count, reason in rows
        ]


@dataclass(frozen=True, slots=True)
class PruneAudit(Command[bool]):
    """Forget one batch of audit rows whose time is over; True while there may be more."""

    batch: int = 1000

    def answer(self) -> Answer[bool]:
        rows = yield Statement("maintenance/prune_audit", {"batch": self.batch})
        return bool(rows[0][0])
