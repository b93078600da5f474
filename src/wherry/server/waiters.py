"""Polls: what somebody who comes to lease asks for, and the waiting of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wherry.commands.workers import EVERY_QUEUE
from wherry.config import LEASE_LIMIT_BYTES
from wherry.domain.lease import Lease, Poller
from wherry.server.caller import ALL_QUEUES, Caller
from wherry.server.roster import Who

# What a poll looks for. Polls that look for the same find the same: nothing, or who comes first.
Sought: TypeAlias = tuple[tuple[str, ...], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What somebody who came to lease asked for, checked; `*` alone stands for every queue."""

    caller: Caller
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    max_tasks: int
    max_last: int | None
    lease_seconds: float
    wait_seconds: float
    confirm_seconds: float | None
    instance: str | None = None

    @property
    def who(self) -> Who:
        """Which worker asks."""
        return Who(self.caller.token_id, self.worker, self.instance)

    @property
    def every_queue(self) -> bool:
        """Whether it is for all the queues there are."""
        return ALL_QUEUES in self.queues

    @property
    def sought(self) -> Sought:
        """What it looks for."""
        return self.queues, self.types

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks that it has to wait under."""
        return (EVERY_QUEUE,) if self.every_queue else self.queues


class Waiter:
    """One poll that was not answered yet."""

    __slots__ = (
        "answer",
        "characters",
        "hungry",
        "in_flight",
        "leases",
        "over",
        "poll",
        "rests",
    )

    def __init__(self, poll: Poll) -> None:
        self.poll = poll
        self.answer: asyncio.Future[list[Lease]] = asyncio.get_running_loop().create_future()
        self.leases: list[Lease] = []
        # Of their payloads.
        self.characters = 0
        # There may be something: it is served in the next round.
        self.hungry = True
        # A statement that may lease for it is under way.
        self.in_flight = False
        # Its time is over: it is answered whatever the next round finds.
        self.over = poll.wait_seconds <= 0
        # Its worker is to drain, or it is not known whether: it waits, but for no task.
        self.rests = False

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.answer.done()

    @property
    def wants(self) -> int:
        """How many more tasks it may be given: none where they would make too large an answer."""
        if self.characters >= LEASE_LIMIT_BYTES:
            return 0
        return self.poll.max_tasks - len(self.leases)

    def take(self, leases: Sequence[Lease]) -> int:
        """Give it *leases*; returns how many characters their payloads have."""
        self.leases += leases
        characters = sum(len(lease.payload_text) for lease in leases)
        self.characters += characters
        return characters

    def asks(self) -> Poller:
        """Return what it asks of the next statement."""
        poll = self.poll
        last = None
        if poll.max_last is not None:
            taken = sum(lease.attempt >= lease.max_attempts for lease in self.leases)
            last = max(0, poll.max_last - taken)
        return Poller(poll.worker, self.wants, last, poll.lease_seconds)

    def settle(self) -> None:
        """Answer it with what it was given."""
        if not self.answer.done():
            self.answer.set_result(list(self.leases))

    def fail(self, error: Exception) -> None:
        """Answer it with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""
        if not self.answer.cancel() and not self.answer.cancelled():
            # An error that came too late is nobody's: say that it was seen.
            self.answer.exception()
