"""One reserved connection of our own, made when it is needed and made anew when it broke.

A worker's loops have one each, so that neither handlers nor a full pool can keep a heartbeat
waiting. Unavailable means that the database may be back soon: going on is the loop's business. Any
other error of the database is raised as it is.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import psycopg

from wherry.commands.base import Command
from wherry.config import PoolSettings
from wherry.errors import Unavailable
from wherry.transport.base import arun
from wherry.transport.bounded import ANSWER_SECONDS, AsyncReserved
from wherry.transport.connect import connection_text
from wherry.transport.faults import Fault, fault_of, one_line, translated

R = TypeVar("R")

_TRIES = 5


class SessionTransport:
    """Carries commands over one connection, one at a time.

    *answer_seconds*: a server that says nothing for so long counts as lost.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str,
        name: str,
        settings: PoolSettings,
        options: dict[str, str] | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.schema = schema
        self._answer_seconds = answer_seconds
        self._text = connection_text(dsn, name=name, settings=settings, options=options)
        self._connection: AsyncReserved | None = None
        self._turn = asyncio.Lock()

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer; sends again what a deadlock or the like kept from happening.

        Raises Unavailable when the connection is lost: then what was sent may have happened.
        """
        async with self._turn:
            tries = 0
            while True:
                tries += 1
                try:
                    return await self._once(command)
                except (psycopg.Error, OSError) as error:
                    if fault_of(error) is not Fault.TRANSIENT:
                        raise (translated(error, schema=self.schema) or error) from error
                    if tries == _TRIES:
                        raise Unavailable(f"tried {_TRIES} times: {one_line(error)}") from error
                    command = command.after_conflict()

    async def connection(self) -> AsyncReserved:
        """Return the open connection, making it if need be."""
        if self._connection is None or self._connection.closed:
            self._connection = await AsyncReserved.connect(
                self._text, autocommit=True, prepare_threshold=1
            )
            self._connection.answer_seconds = self._answer_seconds
            await self._connection.mind_pooler()
        return self._connection

    async def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _once(self, command: Command[R]) -> R:
        connection = await self.connection()
        try:
            if not command.atomic:
                return await arun(connection, command, schema=self.schema)
            try:
                async with connection.transaction():
                    return await arun(connection, command, schema=self.schema)
            except BaseException:
                connection.prepared.doubt()
                raise
        except psycopg.Error as error:
            if fault_of(error) is Fault.LOST:
                await self.close()
            raise
        except BaseException:
            # Canceled in the middle: what state the connection is in is not worth finding out.
            await self.close()
            raise
