"""Schedules as they are declared, as they stand in the database, and which of the two gives way.

A schedule's identity is its name. What it is otherwise makes up its definition, and two programs
that declare one name differently are told apart by that: the newer one wins, whoever starts last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final
from zoneinfo import ZoneInfo

from wherry.domain.cron import (
    Cron,
    Missed,
    Overlap,
    TickOutcome,
    check_missed,
    check_overlap,
    read_cron,
)
from wherry.domain.options import TaskSpec, check_headers, check_name
from wherry.domain.stored import decode

# What a task of a schedule has among its headers.
SCHEDULE_HEADER: Final = "wherry-schedule"
PLANNED_HEADER: Final = "wherry-planned-at"
# So many definitions of before are remembered, to tell a program that is behind from a new one.
MOST_FORMER: Final = 20


@dataclass(frozen=True)
class Schedule:
    """A schedule as somebody declares it, checked; *task* is what each of its times brings.

    The lengths of time of *task* are of whole microseconds.
    """

    name: str
    cron: Cron
    task: TaskSpec
    missed: Missed = Missed.LAST
    overlap: Overlap = Overlap.ALLOW

    @cached_property
    def definition(self) -> str:
        """What tells this schedule from another one of its name; the same in every process."""
        said = self.row
        if self.task.headers:
            # Over the wire headers lose their order.
            said["headers"] = json.dumps(self.task.headers, sort_keys=True)
        text = json.dumps(said, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def row(self) -> dict[str, Any]:
        """All of it as the columns of its row, but payload and policies as text."""
        task = self.task
        return {
            "name": self.name,
            "cron": self.cron.expression,
            "tz": self.cron.tz,
            "type": task.type,
            "queue": task.queue,
            "priority": task.priority,
            "max_attempts": task.max_attempts,
            "timeout_seconds": task.timeout_seconds,
            "ttl_seconds": task.ttl_seconds,
            "tags": task.tags or None,
            "headers": json.dumps(task.headers) if task.headers else None,
            "retry": None if task.retry is None else json.dumps(task.retry),
            "payload": task.payload,
            "missed": self.missed,
            "overlap": self.overlap,
        }

    @classmethod
    def checked(
        cls,
        name: object,
        cron: object,
        task: TaskSpec,
        *,
        tz: object,
        missed: object,
        overlap: object,
    ) -> Schedule:
        """Return a schedule of *task*, which was checked, but for its key: it has none.

        Raises InvalidOption for what cannot be, a day that never comes included.
        """
        made = cls(
            check_name(name, option="name"),
            read_cron(cron, tz),
            task._replace(
                key=None,
                key_ttl_seconds=None,
                timeout_seconds=_whole(task.timeout_seconds),
                ttl_seconds=_whole(task.ttl_seconds),
            ),
            check_missed(missed),
            check_overlap(overlap),
        )
        # This clock only tells whether there is such a day at all.
        made.cron.next_after(now := datetime.now(UTC))
        # Whether there is room for ours.
        check_headers(planned(made, now).headers)
        return made


def _whole(seconds: float | None) -> float | None:
    """Return *seconds* in whole microseconds, one at least.

    The wire counts nanoseconds: of a third of a second it does not bring all digits, and by either
    way a schedule has to have one definition.
    """
    return None if seconds is None else max(round(seconds, 6), 1e-6)


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule as it stands in the database, with what its scheduler has to know of it.

    The fields are those of a row, in its order: `now` is the database's.
    """

    name: str
    cron: Cron
    task: TaskSpec
    missed: Missed
    overlap: Overlap
    next_at: datetime
    last_at: datetime | None
    resumed_at: datetime | None
    # Whether it may bring tasks: some live worker declares it, or it was made by hand.
    is_wanted: bool
    is_paused: bool
    # Of its tasks those that have not ended.
    running: tuple[int, ...]
    # The newest of its ticks, if it is one that brought no task: what follows it may be added.
    last_passed: tuple[datetime, TickOutcome] | None
    now: datetime

    def running_with(self, ids: Sequence[int]) -> list[int]:
        """Return which of its tasks are to be remembered as running once *ids* are among them.

        If they may overlap nobody asks which of them run: the last says enough.
        """
        running = [*self.running, *ids]
        return running if self.overlap is Overlap.SKIP else running[-1:]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Standing:
        """Return the schedule of a row."""
        name, cron, tz, type_, queue, priority, attempts, timeout, ttl, tags, headers = row[:11]
        retry, payload, missed, overlap, next_at, last_at, resumed_at = row[11:18]
        wanted, paused, running, passed_at, passed_outcome, now = row[18:]
        task = TaskSpec(
            queue=queue,
            type=type_,
            priority=priority,
            delay_seconds=None,
            run_after=None,
            max_attempts=attempts,
            retry=decode(retry, what="retry policy") if retry else None,
            timeout_seconds=timeout,
            ttl_seconds=ttl,
            tags=tuple(tags or ()),
            headers=decode(headers, what="headers") if headers else {},
            key_ttl_seconds=None,
            key=None,
            payload=payload,
        )
        return cls(
            name,
            Cron(cron, tz),
            task,
            Missed(missed),
            Overlap(overlap),
            next_at,
            last_at,
            resumed_at,
            wanted,
            paused,
            tuple(running),
            None if passed_at is None else (passed_at, TickOutcome(passed_outcome)),
            now,
        )


def planned(schedule: Schedule | Standing, at: datetime | None) -> TaskSpec:
    """Return the task that a schedule brings at a planned time; None: it is run by hand."""
    headers = {**schedule.task.headers, SCHEDULE_HEADER: schedule.name}
    if at is not None:
        headers[PLANNED_HEADER] = at.astimezone(UTC).isoformat()
    return schedule.task._replace(headers=headers)


def read_planned(header: str | None) -> datetime | None:
    """Return the planned time that a task's header tells; None if it tells none."""
    try:
        return None if header is None else datetime.fromisoformat(header).astimezone(UTC)
    except (ValueError, OverflowError):
        # Whoever enqueues may write any header.
        return None


class Stance(StrEnum):
    """What a worker's declaration comes to, beside what stands under its name."""

    ADD = "add"
    KEEP = "keep"
    REPLACE = "replace"
    GIVE_WAY = "give way"


@dataclass(frozen=True, slots=True)
class Declared:
    """What stands under a name, as far as a declaration has to know.

    `held`: another live worker declares this very definition. `noted`: this worker's declaration
    is known as it is. `rests`: it is not looked at, and not because somebody paused it.
    """

    name: str
    definition: str
    former: tuple[str, ...]
    by_hand: bool
    held: bool
    noted: bool
    rests: bool
    queue: str


def stance(definition: str, found: Declared | None) -> Stance:
    """Say whether a declaration takes the place of what stands there.

    A definition that stood there before is from a program that is behind, and gives way while any
    live worker declares the newer one: else workers of two deploys would take turns for ever. If
    none does, that was a step back on purpose.
    """
    if found is None:
        return Stance.ADD
    if found.by_hand:
        return Stance.GIVE_WAY
    if found.definition == definition:
        return Stance.KEEP
    return Stance.GIVE_WAY if definition in found.former and found.held else Stance.REPLACE


def former_of(found: Declared, definition: str) -> tuple[str, ...]:
    """Return what stood under the name of *found* once *definition* takes its place."""
    kept = [each for each in found.former if each not in (definition, found.definition)]
    return (*kept, found.definition)[-MOST_FORMER:]


@dataclass(frozen=True, slots=True)
class ScheduleSeen:
    """A schedule as it is shown; the fields are those of a row, in its order.

    `next_at` is None while it is paused, and while no live worker declares it: then it brings no
    task. `declared_by`: how many live workers do. The counts are of ticks, and of runs by hand.
    """

    name: str
    cron: str
    tz: str
    type: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    ttl_seconds: float | None
    tags: tuple[str, ...]
    headers_text: str
    retry_text: str | None
    payload_text: str
    missed: Missed
    overlap: Overlap
    by_hand: bool
    declared_by: int
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None
    last_at: datetime | None
    last_fired_at: datetime | None
    last_task_id: int | None
    fired: int
    missed_ticks: int
    overlapped: int
    paused_ticks: int
    by_hand_runs: int
    trouble: str | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> ScheduleSeen:
        """Return the schedule of a row."""
        columns: list[Any] = [*row]
        columns[9] = tuple(row[9] or ())
        columns[13], columns[14] = Missed(row[13]), Overlap(row[14])
        return cls(*columns)

    def late_seconds(self, now: datetime) -> float | None:
        """For how long a time has come and was not settled; None if none has, or none is known."""
        if self.next_at is None or self.trouble is not None or self.next_at > now:
            return None
        return (now - self.next_at).total_seconds()

    @property
    def next_local(self) -> datetime | None:
        """`next_at` in the schedule's own zone; in UTC if this machine does not know that zone."""
        return None if self.next_at is None else self.local(self.next_at)

    def local(self, at: datetime) -> datetime:
        """Return a moment in the schedule's own zone; in UTC if this machine does not know it."""
        try:
            zone = ZoneInfo(self.tz)
        except (LookupError, ValueError, OSError):
            return at.astimezone(UTC)
        return at.astimezone(zone)


@dataclass(frozen=True, slots=True)
class Tick:
    """What became of a planned time, or of `n` that follow one another up to `until_at`.

    Of one that was run by hand `planned_at` is when. `state`: that of its task; None without a task
    and if the task is gone.
    """

    planned_at: datetime
    until_at: datetime
    n: int
    outcome: TickOutcome
    at: datetime
    task_id: int | None
    reason: str | None
    state: str | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Tick:
        """Return the tick of a row."""
        tick = cls(*row)
        return replace(tick, outcome=TickOutcome(tick.outcome))
