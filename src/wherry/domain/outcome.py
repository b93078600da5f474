"""How an attempt ended, and what is to be reported of it.

`judge` is the whole policy: it looks at what the handler raised and says what to report. Loops only
call it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wherry.domain.durations import seconds_from
from wherry.domain.failure import Failure, describe
from wherry.domain.lease import Lease, LeaseRef
from wherry.domain.retry import RetryPolicy, delay, from_json
from wherry.domain.stored import decode_result
from wherry.errors import DecodeError, InvalidOption
from wherry.signals import Cancel, Fail, Retry, Snooze


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned."""

    lease: LeaseRef
    result_text: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `retry` goes back while attempts remain; the others end the task."""

    lease: LeaseRef
    verdict: Literal["retry", "fail", "cancel"]
    failure: Failure
    retry_seconds: float = 0.0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Snoozed (not now) or released (never started, or interrupted by a shutdown)."""

    lease: LeaseRef
    verdict: Literal["snooze", "release"]
    delay_seconds: float = 0.0


Outcome: TypeAlias = Completed | Failed | GivenBack


def judge(
    error: BaseException,
    lease: Lease,
    *,
    policy: RetryPolicy | None = None,
    note: Callable[[str], object] | None = None,
) -> Outcome:
    """Say what to report of an attempt that raised *error*.

    *policy* is the handler's own one, if it is a function; else the one stored with the task
    serves. A delay that makes no sense (`Retry(after="soon")`) is itself the failure that is
    reported.
    """
    try:
        match error:
            case Snooze():
                return GivenBack(lease, "snooze", seconds_from(error.delay, option="Snooze.delay"))
            case Cancel():
                failure = describe(error)
                return Failed(lease, "cancel", failure, reason=failure.message or "by its handler")
            case Fail():
                failure = describe(error)
                return Failed(lease, "fail", failure, reason=failure.message or None)
            case Retry(after=after) if after is not None:
                seconds = seconds_from(after, option="Retry.after")
                return Failed(lease, "retry", describe(error), seconds)
            case _:
                return retry(error, lease, policy=policy, note=note)
    except InvalidOption as nonsense:
        return retry(nonsense, lease, policy=policy, note=note)


def retry(
    error: BaseException,
    lease: Lease,
    *,
    policy: RetryPolicy | None = None,
    note: Callable[[str], object] | None = None,
) -> Failed:
    """A failed attempt that is retried by policy while attempts remain."""
    if policy is None:
        policy = stored_policy(lease, note=note)
    wait = delay(policy, attempts=lease.attempt, error=error, note=note)
    return Failed(lease, "retry", describe(error), wait.total_seconds())


def stored_policy(lease: Lease, *, note: Callable[[str], object] | None = None) -> RetryPolicy:
    """The policy that was stored with the task; the default if there is none, or none readable."""
    return policy_of_text(lease.retry_text, note=note)


def policy_of_text(text: str | None, *, note: Callable[[str], object] | None = None) -> RetryPolicy:
    """The policy that is stored as *text*; the default if there is none, or none readable."""
    stored = None
    if text:
        try:
            stored = decode_result(text, what="retry policy")
        except DecodeError as error:
            # Only plain SQL could have put it there; the task must come to an end all the same.
            if note is not None:
                note(f"{error}, so the default serves")
    return from_json(stored, note=note)
