"""Lease tasks and report on the leases.

Every report is guarded by task, token, lease id and the unexpired lease. Where a report found
nothing, a second statement with a newer snapshot says why: settled already by this lease, held up,
or lost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import accumulate
from time import monotonic
from typing import ClassVar
from uuid import uuid4

from wherry import config
from wherry.commands.base import Answer, Command, Statement
from wherry.commands.lease_rows import lease_rows
from wherry.commands.reported import (
    batch_of,
    fence_of,
    firsts_of,
    given_back,
    in_turn,
    once_each,
    settled,
    state_told,
)
from wherry.commands.task_texts import array_text
from wherry.domain.front import Front
from wherry.domain.lease import Lease, LeaseRef, Poller, Reported, dealt_out
from wherry.domain.outcome import Completed, Failed, GivenBack
from wherry.errors import LeaseLost


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTasks(Command[list[Lease]]):
    """Lease up to `limit` tasks of one queue.

    At most `limit_last` of them are on their last attempt (None: any number): a task whose worker
    dies before it started would otherwise be dead without ever having run. Where to look begins
    the `front` (None: everywhere). A lost answer is not sent again: the leases run out.
    """

    repeatable: ClassVar[bool] = False

    queue: str
    worker: str
    limit: int = 1
    limit_last: int | None = None
    types: tuple[str, ...] | None = None
    lease_seconds: float = config.DEFAULT_LEASE_FOR.total_seconds()
    front: Front | None = None

    def answer(self) -> Answer[list[Lease]]:
        # Counted from before the request, so that our deadline is never later than the database's.
        deadline = monotonic() + self.lease_seconds
        rows = yield Statement(
            "leases/lease_past_front" if self.front else "leases/lease_tasks",
            {
                "queue": self.queue,
                "types": None if self.types is None else array_text(self.types),
                "limit_tasks": str(self.limit),
                "limit_last": str(self.limit if self.limit_last is None else self.limit_last),
                "worker": self.worker,
                "lease_seconds": repr(self.lease_seconds),
                **(self.front.params if self.front else {}),
            },
            takes_text=not self.front,  # its parameters are arrays, which psycopg writes
        )
        rows = yield from lease_rows(rows, self.queue)
        return [Lease(deadline, self.queue, *row) for row in rows]


@dataclass(frozen=True, slots=True)
class LeaseForPollers(Command[list[list[Lease]]]):
    """Lease tasks of one queue to many workers that wait for it; answers in their order.

    Tasks are dealt out one by one in turn, `MOST_AT_ONCE` at most, and none once their payloads
    have `limit_bytes`: a poller who gets none of them waits for the next round. Never sent again,
    as LeaseTasks.
    """

    repeatable: ClassVar[bool] = False
    MOST_AT_ONCE: ClassVar[int] = 1000

    queue: str
    types: tuple[str, ...] | None
    pollers: tuple[Poller, ...]
    limit_bytes: int = config.LEASE_LIMIT_BYTES
    front: Front | None = None

    def answer(self) -> Answer[list[list[Lease]]]:
        # Counted from before the request, as ever.
        now = monotonic()
        limits, together = dealt_out(self.pollers, most=self.MOST_AT_ONCE)
        lease_ids = [str(uuid4()) for _ in self.pollers]
        pollers = [
            {
                "lease_id": lease_id,
                "worker": poller.worker,
                "lease_seconds": poller.lease_seconds,
                "limit_tasks": limit,
                "limit_last": limit if poller.limit_last is None else poller.limit_last,
            }
            for lease_id, poller, limit in zip(lease_ids, self.pollers, limits, strict=True)
        ]
        rows = yield Statement(
            "leases/lease_for_pollers",
            {
                "queue": self.queue,
                "types": None if self.types is None else list(self.types),
                "limit_tasks": together,
                "limit_bytes": self.limit_bytes,
                "pollers": json.dumps(pollers),
                **(self.front or Front()).params,
            },
        )
        seconds = {id_: p.lease_seconds for id_, p in zip(lease_ids, self.pollers, strict=True)}
        dealt: dict[str, list[Lease]] = {id_: [] for id_ in lease_ids}
        for row in (yield from lease_rows(rows, self.queue)):
            lease = Lease(0.0, self.queue, *row)
            lease.deadline = now + seconds[lease.lease_id]
            dealt[lease.lease_id].append(lease)
        return list(dealt.values())


@dataclass(frozen=True, slots=True)
class HeartbeatLeases(Command[list[Reported]]):
    """Extend leases to `extend_seconds` from now; never shortens one, never revives one.

    Answers EXTENDED, CANCEL_REQUESTED (extended too: let go), BUSY (ask again) or LOST, in order,
    and moves the deadlines of those that hold.
    """

    leases: tuple[LeaseRef, ...]
    extend_seconds: float = config.DEFAULT_LEASE_FOR.total_seconds()

    def answer(self) -> Answer[list[Reported]]:
        deadline = monotonic() + self.extend_seconds
        batches: dict[tuple[str, str], list[LeaseRef]] = defaultdict(list)
        for lease in self.leases:
            batches[lease.lease_id, lease.queue].append(lease)
        beats = [
            {
                "lease_id": lease_id,
                "queue": queue,
                "task_ids": [lease.id for lease in batch],
                "tokens": [lease.token for lease in batch],
            }
            for (lease_id, queue), batch in batches.items()
        ]
        params = {"beats": json.dumps(beats), "extend_seconds": self.extend_seconds}
        rows = yield Statement("leases/heartbeat_leases", params)
        answers: dict[tuple[tuple[int, int, str], str], Reported] = {}
        for id_, token, lease_id, queue, held, cancel, busy in rows:
            answers[(id_, token, lease_id), queue] = (
                (Reported.CANCEL_REQUESTED if cancel else Reported.EXTENDED)
                if held
                else (Reported.BUSY if busy else Reported.LOST)
            )
        result: list[Reported] = []
        for lease in self.leases:
            answer = answers.get((lease.fence, lease.queue), Reported.LOST)
            if answer in (Reported.EXTENDED, Reported.CANCEL_REQUESTED):
                lease.deadline = max(lease.deadline, deadline)
            result.append(answer)
        return result


@dataclass(frozen=True, slots=True)
class CompleteTasks(Command[list[Reported]]):
    """Finish tasks as succeeded: DONE, ALREADY_DONE, BUSY or LOST, in order.

    `closed` names the leases of which nothing else is outstanding, so that their rows can go.
    """

    outcomes: tuple[Completed, ...]
    closed: tuple[str, ...] = ()
    # Pass over tasks that somebody else holds, at more CPU a task.
    unlocked: bool = False

    def after_conflict(self) -> CompleteTasks:
        return replace(self, unlocked=True)

    def answer(self) -> Answer[list[Reported]]:
        batches: dict[tuple[str, str], list[Completed]] = defaultdict(list)
        for outcome in once_each(self.outcomes):
            batches[outcome.lease.lease_id, outcome.lease.queue].append(outcome)
        befores = accumulate(map(len, batches.values()), initial=0)
        told = list(map(batch_of, batches.values(), befores))
        params = {"outcomes": json.dumps(told), "closed": array_text(self.closed)}
        name = "leases/complete_unlocked" if self.unlocked else "leases/complete_tasks"
        rows = yield Statement(name, params, takes_text=True)
        ords = rows[0][0] or ()
        if len(ords) == len(self.outcomes):
            # Nearly always.
            return [Reported.DONE] * len(ords)
        in_order = {o.lease.fence: o for batch in batches.values() for o in batch}
        done = [(ord_, Reported.DONE) for ord_ in ords]
        known = yield from settled(tuple(in_order.values()), in_order, done, verb="complete")
        return list(in_turn(self.outcomes, dict(zip(in_order, known, strict=True))))


@dataclass(frozen=True, slots=True)
class FailTasks(Command[list[Reported]]):
    """Record failed attempts: REQUEUED, FAILED, DEAD, CANCELED, ALREADY_DONE, BUSY or LOST."""

    outcomes: tuple[Failed, ...]
    closed: tuple[str, ...] = ()

    def answer(self) -> Answer[list[Reported]]:
        firsts = firsts_of(self.outcomes)
        outcomes = [
            {
                **fence_of(outcome.lease),
                "verdict": outcome.verdict,
                "retry_seconds": outcome.retry_seconds,
                "error_type": outcome.failure.type,
                "message": outcome.failure.message,
                "traceback": outcome.failure.traceback,
                "reason": outcome.reason,
            }
            for outcome in firsts.values()
        ]
        rows = yield Statement(
            "leases/fail_tasks", {"outcomes": json.dumps(outcomes), "closed": list(self.closed)}
        )
        done = [(ord_, state_told(state)) for ord_, state, _woken in rows]
        return (yield from settled(self.outcomes, firsts, done, verb="fail"))


@dataclass(frozen=True, slots=True)
class GiveBackTasks(Command[list[Reported]]):
    """Snooze or release leases: REQUEUED, DEAD, CANCELED, ALREADY_DONE, BUSY or LOST, in order."""

    outcomes: tuple[GivenBack, ...]
    closed: tuple[str, ...] = ()

    def answer(self) -> Answer[list[Reported]]:
        firsts = firsts_of(self.outcomes)
        outcomes = [
            {
                **fence_of(outcome.lease),
                "verdict": outcome.verdict,
                "delay_seconds": outcome.delay_seconds,
            }
            for outcome in firsts.values()
        ]
        rows = yield Statement("leases/give_back_tasks", given_back(outcomes, self.closed))
        done = [(ord_, state_told(state)) for ord_, state, _woken in rows]
        return (yield from settled(self.outcomes, firsts, done, verb="give_back"))


@dataclass(frozen=True, slots=True)
class ReleaseUnconfirmed(Command[list[Reported]]):
    """Give back the leases that nobody has extended since they were leased; in order.

    Their holder may never have got them. REQUEUED, DEAD or CANCELED as after a release; LOST for
    whatever is not as it was leased: extended, settled, or somebody else's by now.
    `lease_seconds` says for how long each was leased.
    """

    leases: tuple[LeaseRef, ...]
    lease_seconds: tuple[float, ...]

    def answer(self) -> Answer[list[Reported]]:
        outcomes = [
            {**fence_of(lease), "verdict": "release", "lease_seconds": seconds}
            for lease, seconds in zip(self.leases, self.lease_seconds, strict=True)
        ]
        # The statement looks by itself whether anything of them is left.
        closed = list({lease.lease_id for lease in self.leases})
        rows = yield Statement("leases/give_back_tasks", given_back(outcomes, closed))
        answers = [Reported.LOST] * len(self.leases)
        for ord_, state, _woken in rows:
            answers[ord_ - 1] = state_told(state)
        return answers


@dataclass(frozen=True, slots=True)
class ListPolicies(Command[list[tuple[int, str | None] | None]]):
    """Tell of each lease its attempt and the stored retry policy, or None if the lease is gone."""

    leases: tuple[LeaseRef, ...]

    def answer(self) -> Answer[list[tuple[int, str | None] | None]]:
        asked = json.dumps([fence_of(lease) for lease in self.leases])
        rows = yield Statement("leases/list_policies", {"leases": asked})
        answers: list[tuple[int, str | None] | None] = [None] * len(self.leases)
        for ord_, attempt, retry_text in rows:
            answers[ord_ - 1] = (attempt, retry_text)
        return answers


@dataclass(frozen=True, slots=True)
class CompleteInTransaction(Command[None]):
    """Finish one task inside the caller's transaction, or raise LeaseLost so that it rolls back."""

    repeatable: ClassVar[bool] = False

    outcome: Completed

    def answer(self) -> Answer[None]:
        lease = self.outcome.lease
        if lease.remaining <= 0:
            # The statement cannot ask: the caller's snapshot may hold an older end of the lease.
            raise LeaseLost(lease.id, token=lease.token)
        rows = yield Statement(
            "leases/complete_in_transaction",
            {
                "id": str(lease.id),
                "queue": lease.queue,
                "token": str(lease.token),
                "lease_id": lease.lease_id,
                "result": self.outcome.result_text,
            },
        )
        if not rows:
            raise LeaseLost(lease.id, token=lease.token)
