"""What goes into the service and what comes out of it, beside the library's own values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from wherry.domain.cron import Missed, Overlap
from wherry.domain.durations import Duration
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Reported
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer
from wherry.domain.worker import Directive
from wherry.errors import WherryError


@dataclass(frozen=True, slots=True)
class Asked:
    """A task to store, decoded but unchecked; `options` has the names of EnqueueOptions."""

    type: str
    payload_text: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Whether an idle worker is woken; in a batch that is the batch's to say.
    notify: bool | None = None


@dataclass(frozen=True, slots=True)
class AskedSchedule:
    """A schedule to stand, decoded but unchecked; `options` has the names of DeclaredOptions."""

    name: str
    cron: str
    type: str
    payload_text: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tz: str = "UTC"
    missed: str = Missed.LAST
    overlap: str = Overlap.ALLOW


@dataclass(frozen=True, slots=True)
class Leased:
    """What a poll got, and what its worker is asked to do."""

    leases: list[Lease]
    directive: Directive = Directive.NONE


@dataclass(frozen=True, slots=True)
class Beat:
    """What became of one lease in a heartbeat: an error if it could not even be looked for."""

    answer: Reported | WherryError
    remaining_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answers to a heartbeat, in the order of its leases."""

    answers: list[Beat]
    directive: Directive = Directive.NONE


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of one lease, decoded but unchecked."""

    lease: str
    kind: Literal["complete", "fail", "cancel", "snooze", "release"]
    result_text: str | None = None
    failure: Failure | None = None
    retry: bool = True
    retry_after: Duration | None = None
    reason: str | None = None
    delay: Duration | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a report; `retry_seconds` is how long a failed task waits, if it does."""

    answer: Reported
    retry_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one task of a bulk change; the key and who has it only with KEY_TAKEN."""

    id: int
    answer: Canceled | RequeueAnswer | Purged | Replanned
    key: str | None = None
    taken_by: int | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """What one call of a bulk change did; `after` gets the next page (None: there is none).

    `answers` is empty in a dry run.
    """

    matched: int
    answers: list[Change]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is, and how much it takes."""

    version: str
    batch_limit: int
    request_limit_bytes: int
    longest_wait_seconds: float

    @property
    def longest_wait(self) -> timedelta:
        """The longest wait of a lease."""
        return timedelta(seconds=self.longest_wait_seconds)
