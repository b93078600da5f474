"""Lease tasks, keep the leases, and say goodbye."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from wherry.app.asked import asked_lease_seconds, asked_queues, asked_types
from wherry.commands.leases import HeartbeatLeases
from wherry.config import DEFAULT_LEASE_FOR, DEFAULT_QUEUE
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.lease import Lease, LeaseRef, Reported
from wherry.domain.options import check_integer, check_name
from wherry.domain.worker import Directive
from wherry.errors import InvalidOption, WherryError
from wherry.server.caller import Caller, Right
from wherry.server.desk import Poll
from wherry.server.roster import Who
from wherry.server.service.base import Base, require_right
from wherry.server.service.values import Beat, Beaten, Leased
from wherry.wire.lease_token import read_lease_token

_SHORTEST_CONFIRM_SECONDS = 1.0
_LONGEST_CONFIRM_SECONDS = 60.0


class Leasing(Base):
    """The verbs of leases that are not reports."""

    async def lease(
        self,
        caller: Caller,
        *,
        worker: str,
        instance: str | None = None,
        queues: Sequence[str] = (),
        types: Sequence[str] | None = None,
        max_tasks: int = 1,
        max_last: int | None = None,
        lease_for: Duration = DEFAULT_LEASE_FOR,
        wait: Duration = 0.0,
        confirm_within: Duration | None = None,
    ) -> Leased:
        """Lease up to *max_tasks* tasks, waiting up to *wait* for the first; never more.

        *queues* in order of preference, `default` if none is named, `*` for every one. *instance*:
        a UUID that the worker drew at its start. Raises Unavailable, after *wait*, while the
        database is away.
        """
        self.refuse_too_many(queues, of="queues")
        self.refuse_too_many(types or (), of="types")
        names = asked_queues(list(queues) or [DEFAULT_QUEUE])
        for name in names:
            caller.require(Right.WORK, None if name == "*" else name)
        most = self.settings.batch_limit
        who = who_of(caller, worker, instance)
        poll = Poll(
            caller=caller,
            worker=who.name,
            instance=who.instance,
            queues=("*",) if "*" in names else tuple(dict.fromkeys(names)),
            types=asked_types(types or None),
            max_tasks=check_integer(max_tasks, option="max_tasks", least=1, most=most),
            max_last=(
                None
                if max_last is None
                else check_integer(max_last, option="max_last", least=0, most=most)
            ),
            lease_seconds=asked_lease_seconds(lease_for),
            wait_seconds=self._wait_seconds(wait),
            confirm_seconds=_confirm_seconds(confirm_within),
        )
        leases = await self.desk.poll(poll)
        return Leased(leases, self.desk.directive_of(who))

    async def undelivered(self, leases: Sequence[Lease]) -> None:
        """Give back what was leased for somebody who was gone before it could be sent."""
        await self.desk.give_back(leases)

    async def heartbeat(
        self,
        caller: Caller,
        *,
        leases: Sequence[str],
        worker: str | None = None,
        instance: str | None = None,
        extend_by: Duration = DEFAULT_LEASE_FOR,
    ) -> Beaten:
        """Extend leases; one answer for each, in order. Without leases only the worker beats."""
        self.refuse_too_many(leases, of="leases", most=self.settings.heartbeat_limit)
        seconds = asked_lease_seconds(extend_by, option="extend_by")
        who = who_of(caller, worker, instance) if worker else None
        if who is not None:
            require_right(caller, Right.WORK)
            self.desk.seen(who, host=caller.peer)
        read = [_readable(caller, text, n) for n, text in enumerate(leases)]
        refs = [lease for lease in read if isinstance(lease, LeaseRef)]
        # Whoever beats has them, whatever the database says.
        self.desk.confirm(refs)
        found = await self.app.acarry(HeartbeatLeases(tuple(refs), seconds)) if refs else []
        answers = iter(found)
        beats = [
            Beat(lease) if isinstance(lease, WherryError) else _beat(lease, next(answers))
            for lease in read
        ]
        return Beaten(beats, Directive.NONE if who is None else self.desk.directive_of(who))

    async def leave_worker(
        self, caller: Caller, *, worker: str, instance: str | None = None
    ) -> None:
        """A worker says goodbye: it is not listed any more."""
        require_right(caller, Right.WORK)
        await self.desk.leave(who_of(caller, worker, instance))

    def _wait_seconds(self, wait: Duration) -> float:
        seconds = seconds_from(wait, option="wait")
        longest = self.settings.longest_wait.total_seconds()
        if seconds > longest:
            raise InvalidOption("wait", wait, f"must be at most {longest:g} s: ask again then")
        return seconds


def who_of(caller: Caller, worker: str, instance: str | None) -> Who:
    """Return which worker calls. Raises InvalidOption."""
    name = check_name(worker, option="worker")
    if not instance:
        return Who(caller.token_id, name, None)
    try:
        return Who(caller.token_id, name, str(UUID(instance)))
    except ValueError:
        raise InvalidOption("instance", instance, "is no UUID: draw one at your start") from None


def _confirm_seconds(confirm_within: Duration | None) -> float | None:
    if confirm_within is None:
        return None
    seconds = seconds_from(confirm_within, option="confirm_within")
    if not _SHORTEST_CONFIRM_SECONDS <= seconds <= _LONGEST_CONFIRM_SECONDS:
        reason = f"must be {_SHORTEST_CONFIRM_SECONDS:g} s to {_LONGEST_CONFIRM_SECONDS:g} s"
        raise InvalidOption("confirm_within", confirm_within, reason)
    return seconds


def _readable(caller: Caller, text: str, n: int) -> LeaseRef | WherryError:
    try:
        lease = read_lease_token(text, option=f"leases[{n}]")
        caller.require(Right.WORK, lease.queue)
    except WherryError as error:
        return error
    return lease


def _beat(lease: LeaseRef, answer: Reported) -> Beat:
    held = answer in (Reported.EXTENDED, Reported.CANCEL_REQUESTED)
    return Beat(answer, max(0.0, lease.remaining) if held else None)
