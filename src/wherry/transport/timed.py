"""A transport that counts what it carries: each command by its name, and how many tasks it is for.

Around a worker's and a server's own sessions, and only if somebody reads metrics.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Protocol, TypeVar

from wherry.commands.audit import Audited
from wherry.commands.base import Command, name_of
from wherry.commands.leases import (
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    LeaseForPollers,
    LeaseTasks,
)
from wherry.commands.remote import PollTasks
from wherry.telemetry.meters import Meters
from wherry.transport.base import Transport

R = TypeVar("R")


class Blocking(Protocol):
    """A blocking transport."""

    def call(self, command: Command[R]) -> R:
        """Return the command's answer."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Timed:
    """Carries commands over another transport, and counts them."""

    def __init__(self, transport: Transport, meters: Meters) -> None:
        self._transport = transport
        self._meters = meters

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer."""
        with timing(command, self._meters):
            answer = await self._transport.call(command)
        _count_tasks(command, answer, self._meters)
        return answer


class TimedBlocking:
    """The same for a blocking transport."""

    def __init__(self, transport: Blocking, meters: Meters) -> None:
        self._transport = transport
        self._meters = meters

    def call(self, command: Command[R]) -> R:
        """Return the command's answer."""
        with timing(command, self._meters):
            return self._transport.call(command)

    def close(self) -> None:
        """Close what is open."""
        self._transport.close()


@contextmanager
def timing(command: Command[Any], meters: Meters) -> Generator[None]:
    """Count a command that is carried inside the block."""
    carried: Command[Any] = command.inner if isinstance(command, Audited) else command
    name = name_of(type(carried))
    began_at = perf_counter()
    try:
        yield
    except Exception:
        meters.failed(name)
        raise
    meters.took(name, perf_counter() - began_at)


def _count_tasks(command: Command[Any], answer: Any, meters: Meters) -> None:
    match command:
        case LeaseTasks() | PollTasks():
            n = len(answer)
        case LeaseForPollers():
            n = sum(map(len, answer))
        case CompleteTasks() | FailTasks() | GiveBackTasks():
            meters.reported(len(command.outcomes))
            return
        case _:
            return
    if n:
        meters.leased(n)
