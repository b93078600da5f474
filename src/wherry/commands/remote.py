"""What only a server can be asked: no statement answers these.

A worker or an App without a database of its own gets its tasks by one long poll, where with a
database it would look into the queues, lease, and wait for notifications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wherry import config
from wherry.commands.base import Command
from wherry.domain.lease import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class PollTasks(Command[list[Lease]]):
    """Lease up to `limit` tasks of `queues` (`*` stands for all), waiting for the first of them.

    At most `limit_last` of them are on their last attempt (None: any number). With
    `confirm_seconds` the leases last only so long until they are beaten, and what is not is given
    back unstarted. A lost answer is not sent again: those tasks come back by themselves.
    """

    repeatable: ClassVar[bool] = False

    worker: str
    queues: tuple[str, ...]
    limit: int = 1
    limit_last: int | None = None
    types: tuple[str, ...] | None = None
    lease_seconds: float = config.DEFAULT_LEASE_FOR.total_seconds()
    wait_seconds: float = 0.0
    confirm_seconds: float | None = None
    # A UUID that the worker drew at its start.
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class GetServer(Command[str]):
    """Ask a server for its version: whether it is there, is one of ours, and lets us in."""
