"""Which tasks somebody looks for: what they may say of them, and how it is kept once checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypedDict

from wherry.domain.durations import Duration
from wherry.domain.state import State


class FilterOptions(TypedDict, total=False):
    """What can be said of tasks that are looked for: every one that is given narrows.

    `state` is one or several. `error` is a part of the last error's text, in any case. `payload` is
    an object, or its JSON text: wanted is what holds it, at the same depth. `older_than` counts
    from the end of a finished task, from the enqueue of a live one. Moments have a timezone; the
    first of two belongs to what is between them, the second does not. `worker` has the task's
    lease, or ended it. `fingerprint` is that of a group of dead tasks.
    """

    id: int | None
    state: str | Iterable[str] | None
    queue: str | None
    type: str | None
    tag: str | None
    key: str | None
    worker: str | None
    error: str | None
    payload: Mapping[str, Any] | str | None
    older_than: Duration | None
    created_after: datetime | None
    created_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None
    fingerprint: str | None


# All but the states: by one of these a change of many tasks has to narrow.
NARROWING: Final = tuple(name for name in FilterOptions.__annotations__ if name != "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which tasks, checked: every field that is not None narrows."""

    states: frozenset[State] = frozenset(State)
    id: int | None = None
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    key: str | None = None
    worker: str | None = None
    error: str | None = None
    payload_text: str | None = None
    older_than_seconds: float | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    fingerprint: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        """What the statements take, but for the states, which differ from one to the other."""
        return {
            "queue": self.queue,
            "type": self.type,
            "tag": self.tag,
            "key": self.key,
            "worker": self.worker,
            "error": self.error,
            "payload": self.payload_text,
            "older_than_seconds": self.older_than_seconds,
            "created_after": self.created_after,
            "created_before": self.created_before,
            "finished_after": self.finished_after,
            "finished_before": self.finished_before,
            "fingerprint": self.fingerprint,
        }

    @property
    def live_states(self) -> list[str]:
        """The states in the table of the live tasks that are wanted; none if only ends are."""
        ends = (self.finished_after, self.finished_before, self.fingerprint)
        if any(each is not None for each in ends):
            return []
        live = ["ready", "delayed", "parked"] if State.QUEUED in self.states else []
        return [*live, "leased"] if State.LEASED in self.states else live


class Counted(NamedTuple):
    """How many tasks there are; with `capped` there are at least so many."""

    tasks: int
    capped: bool


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead and failed tasks whose errors have the same cause, as far as can be told.

    `fingerprint` names them in a filter. `sample_id` is the newest of them, `sample_error` the
    beginning of its error. `queues` are ten at most. `spread`: how many of them ended in each
    twenty-fourth of the time from `since` of the groups until they were asked for.
    """

    fingerprint: str
    type: str
    tasks: int
    first_at: datetime
    last_at: datetime
    sample_id: int
    sample_error: str
    queues: tuple[str, ...]
    spread: tuple[int, ...] = ()

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> DeadGroup:
        """Return the group that a row begins with."""
        columns: list[Any] = [*row[:7], tuple(row[7]), tuple(row[8])]
        return cls(*columns)


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """Groups, the largest first; `capped`: there may be older tasks that were not looked at.

    `since`: when the first of all that were looked at ended; None where there is none.
    """

    groups: tuple[DeadGroup, ...]
    capped: bool = False
    since: datetime | None = None
