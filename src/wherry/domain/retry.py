"""Says how long a failed task waits before its next attempt.

`attempts` is the number of attempts made so far, so it is 1 at the first retry: full jitter with
the default base of 1 s then draws from 0 to 2 s. The policy is stored with each task as JSON; a
callable cannot be stored, runs in the worker only, and a lease lost by a dead worker (where no
Python of yours runs) waits by the default base and cap instead.
"""

from __future__ import annotations

import inspect
import math
import random as randomness
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, cast

from wherry.domain.durations import LONGEST_SECONDS, number_of_seconds, seconds_from
from wherry.errors import InvalidOption

DEFAULT_BASE = timedelta(seconds=1)
DEFAULT_CAP = timedelta(hours=1)

# From here on the cap decides: even a base of one microsecond is past the longest cap by then, so
# cutting the exponent changes no delay and no attempt number can overflow.
_HIGHEST_EXPONENT = 62


def _set(policy: object, **durations: timedelta | float) -> None:
    for name, value in durations.items():
        seconds = seconds_from(value, option=f"{type(policy).__name__}.{name}")
        # A frozen dataclass that reads its arguments has no other way to keep them.
        object.__setattr__(policy, name, timedelta(seconds=seconds))


@dataclass(frozen=True, slots=True, init=False)
class FullJitter:
    """Wait `uniform(0, min(cap, base * 2**attempts))`: the default, spreads a stampede best.

    A base of zero retries at once, every time.
    """

    base: timedelta
    cap: timedelta

    def __init__(
        self, base: timedelta | float = DEFAULT_BASE, cap: timedelta | float = DEFAULT_CAP
    ) -> None:
        _set(self, base=base, cap=cap)


@dataclass(frozen=True, slots=True, init=False)
class Additive:
    """Wait `base * 2**attempts + uniform(0, jitter)`, at most *cap*.

    Near the cap the exponential part gives way, never the jitter: tasks that have all reached the
    cap would otherwise come back in the same second for ever.
    """

    base: timedelta
    jitter: timedelta
    cap: timedelta

    def __init__(
        self,
        base: timedelta | float = DEFAULT_BASE,
        jitter: timedelta | float = DEFAULT_BASE,
        cap: timedelta | float = DEFAULT_CAP,
    ) -> None:
        _set(self, base=base, jitter=jitter, cap=cap)


@dataclass(frozen=True, slots=True, init=False)
class Fixed:
    """Wait *delay*, every time. Zero retries at once."""

    delay: timedelta

    def __init__(self, delay: timedelta | float) -> None:
        _set(self, delay=delay)


RetryFunction: TypeAlias = Callable[[int, BaseException | None], timedelta | float]
RetryPolicy: TypeAlias = FullJitter | Additive | Fixed | RetryFunction

DEFAULT_POLICY = FullJitter()


def check_policy(policy: object, *, index: int | None = None) -> RetryPolicy:
    """Return *policy* if it is one, else raise InvalidOption for the option `retry`."""
    if isinstance(policy, FullJitter | Additive | Fixed):
        return policy
    reason = "must be FullJitter(...), Additive(...), Fixed(...) or a function of (attempt, error)"
    if isinstance(policy, type):
        reason += "; this is a class: call it"
    elif inspect.iscoroutinefunction(policy):
        reason = "must be a plain function, not an async one: it only says how long to wait"
    elif callable(policy):
        return cast("RetryFunction", policy)
    raise InvalidOption("retry", policy, reason, index=index)


def check_own_policy(policy: object, *, index: int | None = None) -> RetryPolicy:
    """Return the *policy* of a single enqueue, else raise InvalidOption.

    That can be no function: it would not be stored with the task, and no worker could know of it.
    """
    checked = check_policy(policy, index=index)
    if not isinstance(checked, FullJitter | Additive | Fixed):
        reason = (
            "a function is for a whole type, @app.task(retry=...), since it runs in the worker:"
            " pass FullJitter(...), Additive(...) or Fixed(...)"
        )
        raise InvalidOption("retry", policy, reason, index=index)
    return checked


def delay(
    policy: RetryPolicy,
    *,
    attempts: int,
    error: BaseException | None = None,
    random: Callable[[], float] = randomness.random,
    note: Callable[[str], object] | None = None,
) -> timedelta:
    """Return how long to wait after *attempts* attempts: never negative, at most a hundred years.

    A function of the user's that raises or answers nonsense cannot harm the task: the default
    policy serves instead, and *note* is told why in a sentence. *random* draws from [0, 1).
    """
    attempts = max(0, attempts)
    match policy:
        case FullJitter(base, cap):
            seconds = random() * _doubled(base, attempts, cap.total_seconds())
        case Additive(base, jitter, cap):
            spread = min(jitter, cap).total_seconds()
            room = cap.total_seconds() - spread
            seconds = _doubled(base, attempts, room) + random() * spread
        case Fixed(fixed):
            return fixed
        case _:
            answer = _ask(policy, attempts, error)
            if not isinstance(answer, str):
                return answer
            if note is not None:
                note(answer)
            return delay(DEFAULT_POLICY, attempts=attempts, random=random)
    return timedelta(seconds=seconds)


def to_json(policy: RetryPolicy) -> dict[str, Any] | None:
    """Return the form that is stored with the task; None for a function."""
    match policy:
        case FullJitter(base, cap):
            return {
                "kind": "full_jitter",
                "base": base.total_seconds(),
                "cap": cap.total_seconds(),
            }
        case Additive(base, jitter, cap):
            return {
                "kind": "additive",
                "base": base.total_seconds(),
                "jitter": jitter.total_seconds(),
                "cap": cap.total_seconds(),
            }
        case Fixed(fixed):
            return {"kind": "fixed", "delay": fixed.total_seconds()}
        case _:
            return None


def from_json(
    stored: Mapping[str, Any] | None, *, note: Callable[[str], object] | None = None
) -> FullJitter | Additive | Fixed:
    """Return the stored policy; the default one for None.

    What cannot be understood (a kind from a newer version, numbers put there by SQL) is the default
    too, and *note* is told: a worker must be able to settle every task it was given.
    """
    if stored is None:
        return DEFAULT_POLICY
    try:
        match stored["kind"]:
            case "full_jitter":
                return FullJitter(stored["base"], stored["cap"])
            case "additive":
                return Additive(stored["base"], stored["jitter"], stored["cap"])
            case "fixed":
                return Fixed(stored["delay"])
            case _:
                reason = "this version knows full_jitter, additive and fixed"
    except (KeyError, TypeError, InvalidOption) as error:
        reason = f"{type(error).__name__}: {error}"
    if note is not None:
        note(f"the stored retry policy is not understood, so the default serves: {reason}")
    return DEFAULT_POLICY


def _doubled(base: timedelta, attempts: int, cap_seconds: float) -> float:
    return min(cap_seconds, base.total_seconds() * 2.0 ** min(attempts, _HIGHEST_EXPONENT))


def _ask(policy: RetryFunction, attempts: int, error: BaseException | None) -> timedelta | str:
    """Return the function's answer, or a sentence that says why it cannot be used."""
    try:
        answer: object = policy(attempts, error)
        if inspect.iscoroutine(answer):
            answer.close()
        seconds = number_of_seconds(answer)
    except Exception as trouble:  # noqa: BLE001 - a user's function, called like a handler
        return f"the retry function raised {type(trouble).__name__}, so the default policy serves"
    if seconds is None:
        problem = f"a {type(answer).__name__}, which is no length of time"
    elif not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_SECONDS:
        problem = f"{seconds:g} s, which is not between 0 and a hundred years"
    else:
        return timedelta(seconds=seconds)
    return f"the retry function answered {problem}, so the default policy serves"
