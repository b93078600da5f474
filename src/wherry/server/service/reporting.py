"""Report what became of leases, one by one or many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Literal, TypeAlias

from wherry.app.asked import asked_reason
from wherry.commands.base import Command
from wherry.commands.leases import CompleteTasks, FailTasks, GiveBackTasks, ListPolicies
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.failure import Failure, type_name
from wherry.domain.lease import Fence, Reported
from wherry.domain.options import check_flag
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome, policy_of_text
from wherry.domain.retry import delay
from wherry.errors import Busy, InvalidOption, InvalidTask, LeaseLost, WherryError
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base
from wherry.server.service.values import Answered, Told
from wherry.tasks.payload import encode_result_text
from wherry.transport.faults import is_refusal
from wherry.wire.lease_token import read_lease_token

_KINDS: Final = (Completed, Failed, GivenBack)
_BUSY_FOR_SECONDS: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.02
_NO_FAILURE: Final = Failure("Error", "", "")
_STOP: Final = "stop its handler: nothing was changed"

_Answer: TypeAlias = Answered | WherryError


class Reporting(Base):
    """The verbs that settle leases."""

    async def complete(
        self, caller: Caller, *, lease: str, result_text: str | None = None
    ) -> Reported:
        """Finish a leased task. Raises LeaseLost, or Busy after two seconds of asking again."""
        told = Told(lease, "complete", result_text=result_text)
        return (await self._settle(caller, told)).answer

    async def fail(
        self,
        caller: Caller,
        *,
        lease: str,
        failure: Failure,
        retry: bool = True,
        retry_after: Duration | None = None,
        reason: str | None = None,
    ) -> Answered:
        """Record a failed attempt; the answer tells how long the task waits, if it does."""
        told = Told(
            lease, "fail", failure=failure, retry=retry, retry_after=retry_after, reason=reason
        )
        return await self._settle(caller, told)

    async def snooze(self, caller: Caller, *, lease: str, delay: Duration) -> Reported:
        """Put a leased task back for *delay*; the attempt is not counted."""
        return (await self._settle(caller, Told(lease, "snooze", delay=delay))).answer

    async def release(self, caller: Caller, *, lease: str) -> Reported:
        """Give back a leased task that never started; the attempt is not counted."""
        return (await self._settle(caller, Told(lease, "release"))).answer

    async def report(
        self, caller: Caller, *, outcomes: Sequence[Told | WherryError]
    ) -> list[Answered | WherryError]:
        """Settle many leases; one answer for each, in order, and no bad one spoils another.

        An error among *outcomes* is what the door could not decode. LOST and BUSY are answers here.
        """
        self.refuse_too_many(outcomes, of="outcomes")
        answers: list[_Answer] = [
            told if isinstance(told, WherryError) else Answered(Reported.LOST) for told in outcomes
        ]
        made: dict[int, Outcome] = {}
        asking_policy: list[int] = []
        for n, told in enumerate(outcomes):
            if isinstance(told, WherryError):
                continue
            try:
                made[n] = _outcome(caller, told, index=n)
            except WherryError as error:
                answers[n] = error
                continue
            if told.kind == "fail" and told.retry and told.retry_after is None:
                asking_policy.append(n)
        await self._set_delays(made, asking_policy)
        for group in _groups(made):
            found = await self._send([made[n] for n in group])
            for n, answer in zip(group, found, strict=True):
                answers[n] = answer
        return answers

    async def _settle(self, caller: Caller, told: Told) -> Answered:
        lease = read_lease_token(told.lease)
        ends_at = monotonic() + _BUSY_FOR_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            [answer] = await self.report(caller, outcomes=[told])
            if isinstance(answer, WherryError):
                raise answer
            if answer.answer is Reported.LOST:
                raise LeaseLost(lease.id, token=lease.token, advice=_STOP)
            if answer.answer is not Reported.BUSY:
                return answer
            if monotonic() + pause > ends_at:
                raise Busy(lease.id)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    async def _set_delays(self, made: dict[int, Outcome], places: Sequence[int]) -> None:
        """Let failed attempts wait as the policies that are stored with their tasks say."""
        if not places:
            return
        leases = tuple(made[n].lease for n in places)
        found = await self.app.acarry(ListPolicies(leases), call="report")
        for n, policy in zip(places, found, strict=True):
            failed = made[n]
            # A lease that is gone is answered so, however long its task would have waited.
            if isinstance(failed, Failed) and policy is not None:
                attempt, text = policy
                wait = delay(policy_of_text(text), attempts=attempt).total_seconds()
                made[n] = replace(failed, retry_seconds=wait)

    async def _send(self, outcomes: Sequence[Any]) -> list[_Answer]:
        """Report outcomes of one kind. What PostgreSQL refuses is parted until it stands alone."""
        self.desk.confirm(outcome.lease for outcome in outcomes)
        try:
            found = await self.app.acarry(_command(outcomes), call="report")
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(outcomes) == 1:
                name = type_name(type(error))
                return [InvalidTask(f"PostgreSQL refused what was reported: {name}")]
            middle = len(outcomes) // 2
            first = await self._send(outcomes[:middle])
            return [*first, *await self._send(outcomes[middle:])]
        return [_answered(outcome, answer) for outcome, answer in zip(outcomes, found, strict=True)]


def _outcome(caller: Caller, told: Told, *, index: int) -> Outcome:
    lease = read_lease_token(told.lease)
    caller.require(Right.WORK, lease.queue)
    failure = told.failure or _NO_FAILURE
    reason = asked_reason(told.reason or None)
    match told.kind:
        case "complete":
            text = told.result_text
            return Completed(lease, None if text is None else encode_result_text(text))
        case "fail":
            verdict: Literal["retry", "fail"] = (
                "retry" if check_flag(told.retry, option="retry") else "fail"
            )
            if verdict == "fail":
                return Failed(lease, "fail", failure, reason=reason or failure.message or None)
            wait = seconds_from(told.retry_after or 0.0, option="retry_after")
            return Failed(lease, "retry", failure, wait, reason)
        case "cancel":
            why = reason or failure.message or "by its handler"
            return Failed(lease, "cancel", failure, reason=why)
        case "snooze":
            if told.delay is None:
                raise InvalidOption("delay", None, "say how long, in seconds")
            return GivenBack(lease, "snooze", seconds_from(told.delay, option="delay"))
        case "release":
            return GivenBack(lease, "release", seconds_from(told.delay or 0.0, option="delay"))
    raise InvalidOption(f"outcomes[{index}]", told.kind, "is no way to end an attempt")


def _groups(made: Mapping[int, Outcome]) -> list[list[int]]:
    """Return the places of outcomes that go together: alike, and of one lease in their order."""
    rounds: list[dict[type, list[int]]] = []
    places: dict[Fence, tuple[int, type]] = {}
    for n, outcome in made.items():
        kind = type(outcome)
        at, before = places.get(outcome.lease.fence, (0, kind))
        # What is said of a lease for the second time, and differently, is too late for the first.
        at += before is not kind
        places[outcome.lease.fence] = (at, kind)
        while len(rounds) <= at:
            rounds.append({kind: [] for kind in _KINDS})
        rounds[at][kind].append(n)
    return [group for groups in rounds for group in groups.values() if group]


def _command(outcomes: Sequence[Any]) -> Command[list[Reported]]:
    # The statement looks itself whether anything of these leases is left.
    closed = tuple(dict.fromkeys(outcome.lease.lease_id for outcome in outcomes))
    match outcomes[0]:
        case Completed():
            return CompleteTasks(tuple(outcomes), closed)
        case Failed():
            return FailTasks(tuple(outcomes), closed)
        case _:
            return GiveBackTasks(tuple(outcomes), closed)


def _answered(outcome: Outcome, answer: Reported) -> Answered:
    if isinstance(outcome, Failed) and answer is Reported.REQUEUED:
        return Answered(answer, outcome.retry_seconds)
    return Answered(answer)
