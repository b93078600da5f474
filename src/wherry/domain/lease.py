"""A lease: the right to run one attempt of a task until it expires.

You report on a lease, never on a task id: token and lease id are the fence that turns a late report
away. The end is counted on this process's monotonic clock from before the request was sent, so that
it is never later than the database's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from time import monotonic
from typing import Any, TypeAlias

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


class Lease(LeaseRef):
    """One leased task; nothing but its deadline changes.

    Slots and positional construction, since a fast worker makes a hundred thousand a second.
    """

    __slots__ = (
        "attempt",
        "created_at",
        "headers_text",
        "key",
        "last_error",
        "leased_at",
        "max_attempts",
        "payload_text",
        "position",
        "priority",
        "retry_text",
        "run_after",
        "snoozes",
        "tags",
        "timeout_seconds",
        "type",
    )

    def __init__(
        self,
        deadline: float,
        id: int,
        queue: str,
        type: str,
        payload_text: str,
        priority: int,
        position: int,
        attempt: int,
        max_attempts: int,
        token: int,
        lease_id: str,
        run_after: datetime,
        created_at: datetime,
        leased_at: datetime,
        timeout_seconds: float | None,
        key: str | None,
        tags: list[str] | None,
        headers_text: str | None,
        retry_text: str | None,
        last_error: str | None,
        snoozes: int,
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
        self.run_after = run_after
        self.created_at = created_at
        self.leased_at = leased_at
        self.timeout_seconds = timeout_seconds
        self.key = key
        self.tags = tags
        self.headers_text = headers_text
        self.retry_text = retry_text
        self.last_error = last_error
        self.snoozes = snoozes
        self.deadline = deadline
        self.fence: Fence = (id, token, lease_id)

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy at each look. Raises DecodeError if the stored text is not readable."""
        return decode(self.payload_text)

    def __repr__(self) -> str:
        return (
            f"<Lease task={self.id} type={self.type!r} attempt={self.attempt}/{self.max_attempts}"
            f" token={self.token} remaining={self.remaining:.1f}s>"
        )
