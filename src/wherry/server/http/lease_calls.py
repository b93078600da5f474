"""Leases over HTTP: from a body to the service's call, and from its answer to a body."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from msgspec import UNSET, Raw, UnsetType

from wherry.config import DEFAULT_LEASE_FOR
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease
from wherry.errors import InvalidOption, WherryError
from wherry.server.http import lease_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import given, read_seconds, write_instant, write_seconds
from wherry.server.http.reading import decode
from wherry.server.http.refusals import Refused
from wherry.server.http.task_calls import item_error, item_problem, raw_or, stored_policy, text_of
from wherry.server.service import Answered, Told
from wherry.wire.lease_token import write_lease_token
from wherry.wire.tasks import headers_of

_DEFAULT_LEASE_SECONDS = DEFAULT_LEASE_FOR.total_seconds()


async def lease(call: Call, body: bodies.LeaseRequest) -> Reply:
    """Lease, waiting if asked to."""
    began_at = monotonic()
    lease_for = read_seconds(body.lease_duration, option="lease_duration")
    leased = await call.service.lease(
        call.caller,
        worker=body.worker_id,
        instance=body.instance,
        queues=body.queues or (),
        types=body.types or None,
        max_tasks=1 if body.max_tasks is None else body.max_tasks,
        max_last=body.max_last,
        lease_for=_DEFAULT_LEASE_SECONDS if lease_for is None else lease_for,
        wait=read_seconds(body.wait, option="wait") or 0.0,
        confirm_within=read_seconds(body.confirm_within, option="confirm_within"),
    )
    try:
        # What remains is counted now, so the wait is too.
        answer = bodies.LeaseResponse(
            tasks=[_leased(lease) for lease in leased.leases],
            directive=leased.directive,
            waited=write_seconds(monotonic() - began_at) or "0s",
        )
    except BaseException:
        await call.service.undelivered(leased.leases)
        raise
    return Reply(answer, leases=tuple(leased.leases))


def _leased(lease: Lease) -> bodies.LeasedTask:
    return bodies.LeasedTask(
        lease=write_lease_token(lease),
        id=str(lease.id),
        queue=lease.queue,
        type=lease.type,
        payload=raw_or(lease.payload_text, "{}"),
        attempt=lease.attempt,
        max_attempts=lease.max_attempts,
        remaining=write_seconds(max(0.0, lease.remaining)) or "0s",
        priority=lease.priority,
        token=str(lease.token),
        run_after=write_instant(lease.run_after),
        created_at=write_instant(lease.created_at),
        leased_at=write_instant(lease.leased_at),
        tags=list(lease.tags or ()),
        headers=headers_of(lease.headers_text),
        snoozes=lease.snoozes,
        timeout=write_seconds(lease.timeout_seconds),
        key=given(lease.key),
        retry=stored_policy(lease.retry_text),
        last_error=given(lease.last_error),
    )


async def heartbeat(call: Call, body: bodies.HeartbeatRequest) -> Reply:
    """Extend leases."""
    extend_by = read_seconds(body.extend_by, option="extend_by")
    beaten = await call.service.heartbeat(
        call.caller,
        leases=body.leases,
        worker=body.worker_id,
        instance=body.instance,
        extend_by=_DEFAULT_LEASE_SECONDS if extend_by is None else extend_by,
    )
    beats = [
        bodies.Beat(answer=bodies.Reported.INVALID)
        if isinstance(beat.answer, WherryError)
        else bodies.Beat(
            answer=bodies.Reported(beat.answer), remaining=write_seconds(beat.remaining_seconds)
        )
        for beat in beaten.answers
    ]
    return Reply(bodies.HeartbeatResponse(beats=beats, directive=beaten.directive))


async def complete(call: Call, body: bodies.CompleteRequest) -> Reply:
    """Finish a task."""
    answer = await call.service.complete(
        call.caller, lease=body.lease, result_text=_result(body.result)
    )
    return Reply(bodies.CompleteResponse(answer=bodies.Reported(answer)))


async def fail(call: Call, body: bodies.FailRequest) -> Reply:
    """Record a failed attempt."""
    answered = await call.service.fail(
        call.caller,
        lease=body.lease,
        failure=_failure(body.error),
        retry=body.retry,
        retry_after=read_seconds(body.retry_after, option="retry_after"),
        reason=body.reason or None,
    )
    answer = bodies.FailResponse(
        answer=bodies.Reported(answered.answer), retry_after=write_seconds(answered.retry_seconds)
    )
    return Reply(answer)


async def snooze(call: Call, body: bodies.SnoozeRequest) -> Reply:
    """Put a task back for a while."""
    delay = read_seconds(body.delay, option="delay") or 0.0
    answer = await call.service.snooze(call.caller, lease=body.lease, delay=delay)
    return Reply(bodies.SnoozeResponse(answer=bodies.Reported(answer)))


async def release(call: Call, body: bodies.ReleaseRequest) -> Reply:
    """Give a task back that never started."""
    answer = await call.service.release(call.caller, lease=body.lease)
    return Reply(bodies.ReleaseResponse(answer=bodies.Reported(answer)))


async def report(call: Call, body: bodies.ReportRequest) -> Reply:
    """Report the outcomes of many leases."""
    outcomes = [_told_or_error(raw, n) for n, raw in enumerate(body.outcomes)]
    answers = await call.service.report(call.caller, outcomes=outcomes)
    return Reply(bodies.ReportResponse(answers=_report_answers(answers)))


def _report_answers(answers: Sequence[Answered | WherryError]) -> list[bodies.ReportAnswer]:
    return [
        bodies.ReportAnswer(answer=bodies.Reported.INVALID, problem=item_problem(answer))
        if isinstance(answer, WherryError)
        else bodies.ReportAnswer(
            answer=bodies.Reported(answer.answer), retry_after=write_seconds(answer.retry_seconds)
        )
        for answer in answers
    ]


def _told_or_error(raw: Raw, n: int) -> Told | WherryError:
    at = f"outcomes[{n}]"
    try:
        return _told(decode(raw, bodies.Outcome, at=at))
    except Refused as refused:
        return item_error(refused, at=at)
    except WherryError as error:
        return error


def _told(outcome: bodies.Outcome) -> Told:
    ways = [
        way
        for way in (
            outcome.complete,
            outcome.fail,
            outcome.cancel,
            outcome.snooze,
            outcome.release,
        )
        if way is not None
    ]
    if len(ways) != 1:
        reason = "say exactly one of complete, fail, cancel, snooze and release"
        raise InvalidOption("outcome", len(ways), reason)
    lease = outcome.lease
    match ways[0]:
        case bodies.Completed(result=result):
            return Told(lease, "complete", result_text=_result(result))
        case bodies.Failed() as failed:
            return Told(
                lease,
                "fail",
                failure=_failure(failed.error),
                retry=failed.retry,
                retry_after=read_seconds(failed.retry_after, option="fail.retry_after"),
                reason=failed.reason or None,
            )
        case bodies.GivenUp() as given_up:
            why = given_up.reason or None
            return Told(lease, "cancel", failure=_failure(given_up.error), reason=why)
        case bodies.Snoozed(delay=delay):
            return Told(lease, "snooze", delay=read_seconds(delay, option="snooze.delay"))
        case bodies.Released(delay=delay):
            return Told(lease, "release", delay=read_seconds(delay, option="release.delay"))


def _failure(error: bodies.Error | None) -> Failure:
    if error is None:
        return Failure.of_text("")
    return Failure.of_text(
        error.message or "", type=error.type or "Error", traceback=error.traceback or ""
    )


def _result(result: Raw | UnsetType) -> str | None:
    return None if result is UNSET else text_of(result)
