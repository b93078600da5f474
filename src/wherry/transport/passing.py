"""A connection that is there as long as a command takes: for what is rare, and may take long."""

from __future__ import annotations

from typing import TypeVar

from wherry.commands.base import Command
from wherry.transport.session import SessionTransport

R = TypeVar("R")

# All tasks are counted by one statement; a thousand million of them take about half an hour.
LONG = {"statement_timeout": "1h"}
LONG_SECONDS = 3660.0


class PassingSession(SessionTransport):
    """Carries each command over a connection of its own, which nobody else has to wait for."""

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer; raises as a session does."""
        try:
            return await super().call(command)
        finally:
            await self.close()
