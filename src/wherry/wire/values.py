"""Lengths of time, instants, enums and retry policies, as they go over the wire.

Protobuf lets through what no clock can show: a nanosecond count of minus two billion, the year
20000, an enum's number from a newer version. All of that is refused here as an option that is out
of range, by its name; whether a length makes sense for what it is, is asked further in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from wherry.domain.durations import seconds_from
from wherry.domain.lease import Reported
from wherry.domain.options import EARLIEST, LATEST
from wherry.domain.retry import Additive, Fixed, FullJitter, from_json, to_json
from wherry.domain.state import State
from wherry.domain.stored import decode
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer
from wherry.domain.worker import Directive
from wherry.errors import DecodeError, InvalidOption
from wherry.wire.v1 import leases_pb2, tasks_pb2

E = TypeVar("E", bound=StrEnum)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NANOS = 1_000_000_000
# The bounds that protobuf itself states for a Duration: ten thousand years.
_MOST_SECONDS = 315_576_000_000

StoredPolicy = FullJitter | Additive | Fixed


def write_duration(length: timedelta | float) -> Duration:
    """Return *length* (a timedelta or seconds) to the nanosecond; what is no number is zero."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if not math.isfinite(seconds):
        seconds = 0.0 if math.isnan(seconds) else math.copysign(_MOST_SECONDS, seconds)
    whole = math.trunc(seconds)
    nanos = round((seconds - whole) * _NANOS)
    if abs(nanos) >= _NANOS:
        whole, nanos = whole + (1 if nanos > 0 else -1), 0
    return Duration(seconds=whole, nanos=nanos)


def read_duration(message: Duration, *, option: str, index: int | None = None) -> float:
    """Return the seconds of *message*, maybe negative. Raises InvalidOption if it is none."""
    seconds, nanos = message.seconds, message.nanos
    contradictory = (seconds > 0 > nanos) or (seconds < 0 < nanos)
    if abs(seconds) > _MOST_SECONDS or abs(nanos) >= _NANOS or contradictory:
        shown = f"{seconds}s {nanos}ns"
        raise InvalidOption(option, shown, "is no length of time", index=index)
    # Of whole nanoseconds: a sum of two floats would not be the nearest one.
    return (seconds * _NANOS + nanos) / _NANOS


def write_instant(instant: datetime) -> Timestamp:
    """Return *instant*, which has a timezone, to the microsecond."""
    seconds, micros = divmod((instant - _EPOCH) // _MICROSECOND, 1_000_000)
    return Timestamp(seconds=seconds, nanos=micros * 1000)


def read_instant(message: Timestamp, *, option: str, index: int | None = None) -> datetime:
    """Return the instant in UTC, cut to microseconds. Raises InvalidOption if it is none."""
    if 0 <= message.nanos < _NANOS:
        try:
            instant = _EPOCH + timedelta(
                seconds=message.seconds, microseconds=message.nanos // 1000
            )
        except OverflowError:
            pass
        else:
            if EARLIEST <= instant <= LATEST:
                return instant
    shown = f"{message.seconds}s {message.nanos}ns since 1970"
    raise InvalidOption(option, shown, "is no instant of the years 1 to 9999", index=index)


class _Numbers(Protocol):
    """What is needed of a generated enum."""

    def items(self) -> list[tuple[str, Any]]:
        """Return its names and numbers."""
        ...


class Names(Generic[E]):
    """The two ways between a StrEnum of ours and the enum of the wire that has the same names."""

    def __init__(
        self, numbers: _Numbers, names: type[E], prefix: str, *, unspecified: E | None = None
    ) -> None:
        known = dict(numbers.items())
        self._numbers: dict[E, Any] = {
            name: known[f"{prefix}_UNSPECIFIED" if name is unspecified else f"{prefix}_{name.name}"]
            for name in names
        }
        self._names: dict[int, E] = {number: name for name, number in self._numbers.items()}

    # Any: the generated messages take their own enum's type only, which is a number.
    def write(self, name: E) -> Any:
        """Return the number of *name*."""
        return self._numbers[name]

    def read(self, number: int, *, option: str, index: int | None = None) -> E:
        """Return the name of *number*. Raises InvalidOption for one that has none here."""
        name = self._names.get(number)
        if name is None:
            known = ", ".join(f"{n} ({name.name})" for n, name in sorted(self._names.items()))
            raise InvalidOption(option, number, f"there are only {known}", index=index)
        return name

    def read_all(self, numbers: Iterable[int], *, option: str) -> list[E]:
        """Return the names of *numbers*, in order."""
        return [self.read(number, option=f"{option}[{n}]") for n, number in enumerate(numbers)]


STATES: Final = Names(tasks_pb2.State, State, "STATE")
CANCELED: Final = Names(tasks_pb2.CancelAnswer, Canceled, "CANCEL_ANSWER")
REQUEUED: Final = Names(tasks_pb2.RequeueAnswer, RequeueAnswer, "REQUEUE_ANSWER")
REPLANNED: Final = Names(tasks_pb2.ReplanAnswer, Replanned, "REPLAN_ANSWER")
PURGED: Final = Names(tasks_pb2.PurgeAnswer, Purged, "PURGE_ANSWER")
REPORTED: Final = Names(leases_pb2.Reported, Reported, "REPORTED")
DIRECTIVES: Final = Names(leases_pb2.Directive, Directive, "DIRECTIVE", unspecified=Directive.NONE)


def write_policy(policy: StoredPolicy) -> tasks_pb2.RetryPolicy:
    """Return *policy* as it goes over the wire."""
    kinds = tasks_pb2.RetryPolicy
    match policy:
        case FullJitter(base, cap):
            jitter = kinds.FullJitter(base=write_duration(base), cap=write_duration(cap))
            return kinds(full_jitter=jitter)
        case Additive(base, jitter, cap):
            additive = kinds.Additive(
                base=write_duration(base), jitter=write_duration(jitter), cap=write_duration(cap)
            )
            return kinds(additive=additive)
        case Fixed(delay):
            return kinds(fixed=kinds.Fixed(delay=write_duration(delay)))


def write_stored_policy(text: str | None) -> tasks_pb2.RetryPolicy | None:
    """Return the policy that is stored as *text*; None if there is none, or none readable."""
    if not text:
        return None
    notes: list[str] = []
    try:
        policy = from_json(decode(text, what="retry policy"), note=notes.append)
    except DecodeError:
        return None
    return None if notes else write_policy(policy)


def read_policy(
    message: tasks_pb2.RetryPolicy, *, option: str = "retry", index: int | None = None
) -> StoredPolicy:
    """Return the policy. Raises InvalidOption, naming the field that is to blame."""

    def lengths(kind: str, part: Any, *names: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for name in names:
            if part.HasField(name):
                field = f"{option}.{kind}.{name}"
                seconds = read_duration(getattr(part, name), option=field, index=index)
                found[name] = seconds_from(seconds, option=field, index=index)
        return found

    match message.WhichOneof("policy"):
        case "full_jitter":
            return FullJitter(**lengths("full_jitter", message.full_jitter, "base", "cap"))
        case "additive":
            return Additive(**lengths("additive", message.additive, "base", "jitter", "cap"))
        case "fixed":
            if not message.fixed.HasField("delay"):
                reason = "is missing: say how long to wait"
                raise InvalidOption(f"{option}.fixed.delay", None, reason, index=index)
            return Fixed(**lengths("fixed", message.fixed, "delay"))
        case _:
            reason = "names no policy that is known here: full_jitter, additive or fixed"
            raise InvalidOption(option, None, reason, index=index)


def policy_to_store(message: tasks_pb2.RetryPolicy) -> dict[str, Any] | None:
    """Return the policy in the form that is stored with a task."""
    return to_json(read_policy(message))
