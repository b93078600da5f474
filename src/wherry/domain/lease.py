"""A lease: the right to run one attempt of a task until it expires.

You report on a lease, never on a task id: token and lease id are the fence that turns a late report
away. The end is counted on this process's monotonic clock from before the request was sent, so that
it is never later than the database's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from wherry import config
from wherry.domain.stored import decode


class Reported(StrEnum):
    """The answer to a report or heartbeat, one for each lease.

    BUSY: an open transaction is settling this very task; ask again.
    """

    DONE = "done"
    ALREADY_DONE = "already_done"
    REQUEUED = "requeued"
    FAILED = "failed"
    DEAD = "dead"
    CANCELED = "canceled"
    LOST = "lost"
    BUSY = "busy"
    EXTENDED = "extended"
    CANCEL_REQUESTED = "cancel_requested"


# Task, token and lease id: what a report must match. All three, since leases are committed without
# waiting for the disk: after a crash a token can come again, a lease id cannot.
Fence: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Poller:
    """Somebody who waits for tasks: a worker, and how many it takes now.

    At most `limit_last` of them may be on their last attempt (None: any number).
    """

    worker: str
    limit: int
    limit_last: int | None = None
    lease_seconds: float = config.DEFAULT_LEASE_FOR.total_seconds()


def dealt_out(pollers: Sequence[Poller], *, most: int) -> tuple[list[int], int]:
    """Return how many tasks each could get if *most* were dealt out in turns, and all together.

    The last turn may be begun only: then there are fewer tasks than the limits make.
    """
    limits = [max(0, poller.limit) for poller in pollers]
    turns, left = 0, most
    for n, limit in zip(range(len(limits), 0, -1), sorted(limits), strict=True):
        # So many have this limit, or a higher one.
        if (limit - turns) * n >= left:
            turns += -(-left // n)
            break
        left -= (limit - turns) * n
        turns = limit
    return [min(limit, turns) for limit in limits], min(most, sum(limits))


class LeaseRef:
    """What a report has to name of a lease. `deadline` moves when a heartbeat is answered.

    A server knows no more of the leases that its callers hold.
    """

    __slots__ = ("deadline", "fence", "id", "lease_id", "queue", "token")

    def __init__(self, deadline: float, id: int, queue: str, token: int, lease_id: str) -> None:
        self.deadline = deadline
        self.id = id
        self.queue = queue
        self.token = token
        self.lease_id = lease_id
        self.fence: Fence = (id, token, lease_id)

    @property
    def remaining(self) -> float:
        """Seconds until the lease runs out if nobody extends it; negative when it has."""
        return self.deadline - monotonic()


class Times(NamedTuple):
    """The moments of a leased task; what PostgreSQL told is in UTC."""

    run_after: datetime
    created_at: datetime
    leased_at: datetime


class Rare(NamedTuple):
    """What most tasks have none of."""

    timeout_seconds: float | None = None
    key: str | None = None
    tags: list[str] | None = None
    headers_text: str | None = None
    retry_text: str | None = None
    last_error: str | None = None
    snoozes: int = 0


_NOTHING_RARE = Rare()
# What PostgreSQL counts its microseconds from.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Lease(LeaseRef):
    """One leased task; nothing but its deadline changes, and what its worker notes down.

    `began_at`, `ended_at`: when its handler began and ended there, by its monotonic clock.

    Slots and positional construction, since a fast worker makes a hundred thousand a second. What
    few handlers ask for arrives as two texts, `times` and `rare` (None: nothing rare), which are
    read when somebody asks. `sql/leases/lease_tasks.sql` writes them.
    """

    __slots__ = (
        "_rare",
        "_times",
        "attempt",
        "began_at",
        "ended_at",
        "max_attempts",
        "payload_text",
        "position",
        "priority",
        "type",
    )

    def __init__(
        self,
        deadline: float,
        queue: str,
        id: int,
        type: str,
        payload_text: str,
        priority: int,
        position: int,
        attempt: int,
        max_attempts: int,
        token: int,
        lease_id: str,
        times: Times | str,
        rare: Rare | str | None = None,
    ) -> None:
        self.id = id
        self.queue = queue
        self.type = type
        self.payload_text = payload_text
        self.priority = priority
        self.position = position
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.token = token
        self.lease_id = lease_id
        self.deadline = deadline
        self.fence: Fence = (id, token, lease_id)
        self._times = times
        self._rare = rare
        self.began_at = self.ended_at = 0.0

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy at each look. Raises DecodeError if the stored text is not readable."""
        return decode(self.payload_text)

    @property
    def times(self) -> Times:
        """The moments of this task. Raises OverflowError for those that Python has no word for."""
        times = self._times
        if isinstance(times, str):
            times = self._times = _read_times(times)
        return times

    @property
    def rare(self) -> Rare:
        """What most tasks have none of."""
        rare = self._rare
        if rare is None:
            return _NOTHING_RARE
        if isinstance(rare, str):
            rare = self._rare = Rare(*json.loads(rare))
        return rare

    @property
    def run_after(self) -> datetime:
        """When the task was to run at the earliest."""
        return self.times.run_after

    @property
    def created_at(self) -> datetime:
        """When the task was enqueued."""
        return self.times.created_at

    @property
    def leased_at(self) -> datetime:
        """When this lease was given."""
        return self.times.leased_at

    @property
    def timeout_seconds(self) -> float | None:
        """How long an attempt may take, in seconds; None if nobody said."""
        # Asked for of every task.
        return None if self._rare is None else self.rare.timeout_seconds

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self.rare.key

    @property
    def tags(self) -> list[str] | None:
        """The tags; None if there are none."""
        return self.rare.tags

    @property
    def headers_text(self) -> str | None:
        """The headers, as JSON text."""
        return self.rare.headers_text

    @property
    def retry_text(self) -> str | None:
        """The retry policy that was stored with the task, as JSON text."""
        return self.rare.retry_text

    @property
    def last_error(self) -> str | None:
        """What went wrong in the attempt before."""
        return self.rare.last_error

    @property
    def snoozes(self) -> int:
        """How often the task was put off by its handler."""
        return self.rare.snoozes

    def __repr__(self) -> str:
        return (
            f"<Lease task={self.id} type={self.type!r} attempt={self.attempt}/{self.max_attempts}"
            f" token={self.token} remaining={self.remaining:.1f}s>"
        )


def _read_times(text: str) -> Times:
    raw = bytes.fromhex(text)
    return Times(
        *(
            _EPOCH + timedelta(microseconds=int.from_bytes(raw[at : at + 8], signed=True))
            for at in (0, 8, 16)
        )
    )
