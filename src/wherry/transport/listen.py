"""Hears PostgreSQL's notifications on a connection of its own, and proves that it still can.

A notification only says "look now": losing any of them costs one poll. So the listener's one duty
beside hearing is to be honest about being alive, since a quiet connection and a dead one look the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg

from wherry.commands.workers import GetChannel
from wherry.config import PoolSettings
from wherry.domain.names import quote_identifier
from wherry.telemetry.loggers import logger
from wherry.transport.base import arun
from wherry.transport.bounded import AsyncReserved
from wherry.transport.connect import connection_text
from wherry.transport.faults import one_line
from wherry.transport.patience import SOON_SECONDS, Patience

log = logger("wherry.worker")

_PROVE_EVERY = 30.0
_PROVE_WITHIN = 5.0


class Listener:
    """Calls *heard* with the queue named by each notification of one schema."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str,
        name: str,
        settings: PoolSettings,
        heard: Callable[[str], object],
    ) -> None:
        self._schema = schema
        self._text = connection_text(dsn, name=name, settings=settings)
        self._heard = heard
        self._deaf_at: float | None = monotonic()

    @property
    def alive(self) -> bool:
        """Whether it hears what is notified."""
        return self._deaf_at is None

    def deaf_seconds(self) -> float | None:
        """Return for how long it has heard nothing, None while it hears; from any thread."""
        deaf_at = self._deaf_at
        return None if deaf_at is None else monotonic() - deaf_at

    async def run(self) -> None:
        """Listen for ever, through every loss of the connection; the owner cancels it."""
        patience = Patience(first=0.1, longest=SOON_SECONDS)
        while True:
            try:
                async with await AsyncReserved.connect(
                    self._text, autocommit=True, prepare_threshold=None
                ) as connection:
                    channel = await arun(connection, GetChannel(), schema=self._schema)
                    await connection.execute(f"listen {quote_identifier(channel)}".encode())
                    self._deaf_at = None
                    # What was enqueued while nobody listened is found by looking once.
                    self._heard("")
                    patience.reset()
                    await self._listen(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                if patience.may_complain():
                    log.warning(
                        "not listening, polling instead until it is back: %s", one_line(error)
                    )
            finally:
                if self._deaf_at is None:
                    self._deaf_at = monotonic()
            await asyncio.sleep(patience.next_pause())

    async def _listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            async for note in connection.notifies(timeout=_PROVE_EVERY):
                self._heard(note.payload)
            async with asyncio.timeout(_PROVE_WITHIN):
                await connection.execute(b"select 1")
