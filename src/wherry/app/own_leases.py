"""Leases that a server gave out, where they are reported to the database itself.

A client of a server holds an opaque text in the place of the lease's id. A program that has both
may lease by the one and complete in a transaction of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

from wherry.commands.base import Command
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
)
from wherry.domain.lease import LeaseRef
from wherry.wire.lease_token import read_lease_token

R = TypeVar("R")

_UUID_LETTERS = 36


def with_own_leases(command: Command[R]) -> Command[R]:
    """Return *command* with the leases' real ids where they are the opaque ones of a server.

    Raises InvalidOption for what is neither.
    """
    asked: Any = command
    if isinstance(command, CompleteInTransaction):
        asked = replace(asked, outcome=_own(asked.outcome))
    elif isinstance(command, CompleteTasks | FailTasks | GiveBackTasks):
        asked = replace(asked, outcomes=tuple(_own(each) for each in asked.outcomes))
    return cast("Command[R]", asked)


def _own(outcome: Any) -> Any:
    held: LeaseRef = outcome.lease
    if len(held.lease_id) == _UUID_LETTERS:
        return outcome
    lease = read_lease_token(held.lease_id)
    lease.deadline = held.deadline
    return replace(outcome, lease=lease)
