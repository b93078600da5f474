"""Leases and their outcomes on the wire.

A client's lease has, in place of the lease's id, the whole opaque text that the server gave: that
is what it reports with. A server reads that text back with `lease_token`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Rare, Times
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.errors import InvalidOption
from wherry.wire.lease_token import write_lease_token
from wherry.wire.tasks import headers_of, headers_text, policy_text
from wherry.wire.v1 import leases_pb2 as pb
from wherry.wire.values import (
    read_duration,
    read_instant,
    write_duration,
    write_instant,
    write_stored_policy,
)

Kind: TypeAlias = Literal["complete", "fail", "cancel", "snooze", "release"]


def write_lease(lease: Lease) -> pb.LeasedTask:
    """Return *lease* for whoever asked for it; what remains of it is counted now."""
    return pb.LeasedTask(
        lease=write_lease_token(lease),
        id=lease.id,
        queue=lease.queue,
        type=lease.type,
        payload=lease.payload_text,
        attempt=lease.attempt,
        max_attempts=lease.max_attempts,
        remaining=write_duration(max(0.0, lease.remaining)),
        timeout=None if lease.timeout_seconds is None else write_duration(lease.timeout_seconds),
        priority=lease.priority,
        token=lease.token,
        run_after=write_instant(lease.run_after),
        created_at=write_instant(lease.created_at),
        leased_at=write_instant(lease.leased_at),
        key=lease.key,
        tags=lease.tags,
        headers=headers_of(lease.headers_text),
        retry=write_stored_policy(lease.retry_text),
        last_error=lease.last_error,
        snoozes=lease.snoozes,
    )


def read_lease(message: pb.LeasedTask, *, asked_at: float) -> Lease:
    """Return the lease as its client holds it.

    *asked_at* is a monotonic time at which the lease was not taken yet, see `read_leases`.
    `position` is not told to clients.
    """
    return Lease(
        asked_at + read_duration(message.remaining, option="remaining"),
        message.queue,
        message.id,
        message.type,
        message.payload,
        message.priority,
        0,
        message.attempt,
        message.max_attempts,
        message.token,
        message.lease,
        Times(
            read_instant(message.run_after, option="run_after"),
            read_instant(message.created_at, option="created_at"),
            read_instant(message.leased_at, option="leased_at"),
        ),
        Rare(
            read_duration(message.timeout, option="timeout")
            if message.HasField("timeout")
            else None,
            message.key if message.HasField("key") else None,
            list(message.tags) or None,
            headers_text(message.headers),
            policy_text(message),
            message.last_error if message.HasField("last_error") else None,
            message.snoozes,
        ),
    )


def read_leases(response: pb.LeaseResponse, *, asked_at: float) -> list[Lease]:
    """Return what was leased by a request that was sent no sooner than *asked_at* (monotonic).

    What remains of a lease counts from the end of the request's wait. Counted from *asked_at* and
    the wait, as the server measured it, it ends here no later than there, however slow the network.
    """
    waited = read_duration(response.waited, option="waited")
    return [read_lease(task, asked_at=asked_at + waited) for task in response.tasks]


def write_failure(failure: Failure) -> pb.Error:
    """Return what went wrong in a handler."""
    return pb.Error(type=failure.type, message=failure.message, traceback=failure.traceback)


def read_failure(message: pb.Error) -> Failure:
    """Return what went wrong, cleaned and cut as everything that is stored."""
    return Failure.of_text(
        message.message, type=message.type or "Error", traceback=message.traceback
    )


def write_outcome(outcome: Outcome) -> pb.Outcome:
    """Return an outcome as its client reports it: of a lease that `read_lease` made."""
    kinds = pb.Outcome
    lease = outcome.lease.lease_id
    match outcome:
        case Completed(result_text=result):
            return kinds(lease=lease, complete=kinds.Completed(result=result))
        case Failed(verdict="cancel"):
            error = write_failure(outcome.failure)
            given_up = kinds.GivenUp(error=error, reason=outcome.reason or "")
            return kinds(lease=lease, cancel=given_up)
        case Failed():
            retry = outcome.verdict == "retry"
            failed = kinds.Failed(
                error=write_failure(outcome.failure),
                retry=retry,
                retry_after=write_duration(outcome.retry_seconds) if retry else None,
                reason=outcome.reason or "",
            )
            return kinds(lease=lease, fail=failed)
        case GivenBack(verdict="snooze"):
            delay = write_duration(outcome.delay_seconds)
            return kinds(lease=lease, snooze=kinds.Snoozed(delay=delay))
        case GivenBack():
            delay = write_duration(outcome.delay_seconds)
            return kinds(lease=lease, release=kinds.Released(delay=delay))


def read_outcome(message: pb.Outcome) -> tuple[str, Kind, dict[str, Any]]:
    """Return the lease, what is told of it, and the particulars that were given, unchecked.

    The particulars: `result_text`, or `failure`, `retry`, `retry_after`, `reason`, or `delay`.
    Raises InvalidOption for an outcome of no kind, and for a length that is none.
    """
    match message.WhichOneof("outcome"):
        case "complete":
            result = message.complete.result if message.complete.HasField("result") else None
            return message.lease, "complete", {"result_text": result}
        case "fail":
            return message.lease, "fail", read_failed(message.fail, option="fail")
        case "cancel":
            told = {
                "failure": read_failure(message.cancel.error),
                "reason": message.cancel.reason or None,
            }
            return message.lease, "cancel", told
        case "snooze":
            if not message.snooze.HasField("delay"):
                raise InvalidOption("snooze.delay", None, "is missing: say how long")
            delay = read_duration(message.snooze.delay, option="snooze.delay")
            return message.lease, "snooze", {"delay": delay}
        case "release":
            delay = read_duration(message.release.delay, option="release.delay")
            return message.lease, "release", {"delay": delay}
        case _:
            reason = "is missing: complete, fail, cancel, snooze or release"
            raise InvalidOption("outcome", None, reason)


def read_failed(message: pb.Outcome.Failed | pb.FailRequest, *, option: str = "") -> dict[str, Any]:
    """Return what is told of a failure: `failure`, `retry`, `retry_after`, `reason`."""
    field = f"{option}.retry_after" if option else "retry_after"
    return {
        "failure": read_failure(message.error),
        "retry": message.retry if message.HasField("retry") else True,
        "retry_after": (
            read_duration(message.retry_after, option=field)
            if message.HasField("retry_after")
            else None
        ),
        "reason": message.reason or None,
    }
