"""Every kind of connection that `tx=` takes, behind one face, so that one suite serves them all.

A kind is opened, begun and ended in its own natural way, never by SQL text. Blocking ones are used
in a thread, since a test may have to let go of what they wait for.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar

import asyncpg
import psycopg
import pytest
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import wherry

READ_COMMITTED = "READ COMMITTED"
REPEATABLE_READ = "REPEATABLE READ"
SERIALIZABLE = "SERIALIZABLE"
AUTOCOMMIT = "AUTOCOMMIT"
ISOLATIONS = (READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE)


class Kind(ABC):
    """An open connection of one kind, with what a test does to it; each `await`ed."""

    blocking: ClassVar[bool] = False

    def __init__(self, tx: Any, isolation: str) -> None:
        self.tx = tx
        self.isolation = isolation

    @classmethod
    @abstractmethod
    def open(cls, dsn: str, isolation: str) -> Any:
        """Connect; an async context manager that closes at the end."""

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...

    @abstractmethod
    async def savepoint(self) -> None: ...

    @abstractmethod
    async def rollback_to_savepoint(self) -> None: ...

    @abstractmethod
    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own."""

    async def call(self, app: wherry.App, verb: str, *args: Any, **options: Any) -> Any:
        """Make a call of *app* on this connection, in the form that is meant for it."""
        if self.blocking:
            return await asyncio.to_thread(getattr(app, verb), *args, tx=self.tx, **options)
        return await getattr(app, f"a{verb}")(*args, tx=self.tx, **options)

    async def enqueue(self, app: wherry.App, type: str = "t", **options: Any) -> wherry.Enqueued:
        answer: wherry.Enqueued = await self.call(app, "enqueue", type, **options)
        return answer

    async def value(self, sql: str) -> Any:
        """Return the one value that *sql* gives."""
        [[value]] = await self.execute(sql)
        return value


class Psycopg(Kind):
    """psycopg.Connection; it begins by itself."""

    blocking = True
    tx: psycopg.Connection[Any]

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[Psycopg]:
        with psycopg.connect(dsn, autocommit=isolation == AUTOCOMMIT) as connection:
            if isolation != AUTOCOMMIT:
                connection.isolation_level = _PSYCOPG_LEVELS[isolation]
            yield cls(connection, isolation)

    async def begin(self) -> None:
        pass

    async def commit(self) -> None:
        await asyncio.to_thread(self.tx.commit)

    async def rollback(self) -> None:
        await asyncio.to_thread(self.tx.rollback)

    async def savepoint(self) -> None:
        self.nested = self.tx.transaction()
        await asyncio.to_thread(self.nested.__enter__)

    async def rollback_to_savepoint(self) -> None:
        undo = psycopg.Rollback()
        await asyncio.to_thread(self.nested.__exit__, psycopg.Rollback, undo, None)

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        def run() -> list[tuple[Any, ...]]:
            cursor = self.tx.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        return await asyncio.to_thread(run)


class AsyncPsycopg(Kind):
    """psycopg.AsyncConnection; it begins by itself."""

    tx: psycopg.AsyncConnection[Any]

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[AsyncPsycopg]:
        autocommit = isolation == AUTOCOMMIT
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit) as connection:
            if not autocommit:
                await connection.set_isolation_level(_PSYCOPG_LEVELS[isolation])
            yield cls(connection, isolation)

    async def begin(self) -> None:
        pass

    async def commit(self) -> None:
        await self.tx.commit()

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def savepoint(self) -> None:
        self.nested = self.tx.transaction()
        await self.nested.__aenter__()

    async def rollback_to_savepoint(self) -> None:
        await self.nested.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = await self.tx.execute(sql.encode())
        return await cursor.fetchall() if cursor.description else []


class Asyncpg(Kind):
    """asyncpg.Connection; outside of a transaction it commits each statement."""

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[Asyncpg]:
        connection = await asyncpg.connect(dsn)
        try:
            yield cls(connection, isolation)
        finally:
            await connection.close()

    async def begin(self) -> None:
        level = self.isolation.lower().replace(" ", "_")
        self.transaction = self.tx.transaction(isolation=level)
        await self.transaction.start()

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()

    async def savepoint(self) -> None:
        self.nested = self.tx.transaction()
        await self.nested.start()

    async def rollback_to_savepoint(self) -> None:
        await self.nested.rollback()

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.tx.fetch(sql)]


class PooledAsyncpg(Asyncpg):
    """A connection lent by an asyncpg pool, without prepared statements, as behind a pooler."""

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[Asyncpg]:
        async with (
            asyncpg.create_pool(dsn, min_size=1, max_size=1, statement_cache_size=0) as pool,
            pool.acquire() as connection,
        ):
            yield cls(connection, isolation)


class BlockingAlchemy(Kind):
    """What SQLAlchemy's Connection and Session have in common."""

    blocking = True
    tx: Connection | Session

    async def begin(self) -> None:
        await asyncio.to_thread(self.tx.begin)

    async def commit(self) -> None:
        await asyncio.to_thread(self.tx.commit)

    async def rollback(self) -> None:
        await asyncio.to_thread(self.tx.rollback)

    async def savepoint(self) -> None:
        self.nested = await asyncio.to_thread(self.tx.begin_nested)

    async def rollback_to_savepoint(self) -> None:
        await asyncio.to_thread(self.nested.rollback)

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        def run() -> list[tuple[Any, ...]]:
            result: Any = self.tx.execute(text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []

        return await asyncio.to_thread(run)


class AlchemyConnection(BlockingAlchemy):
    """sqlalchemy.Connection over psycopg."""

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[AlchemyConnection]:
        with create_engine(url(dsn, "psycopg"), **_fresh(isolation)).connect() as connection:
            yield cls(connection, isolation)


class AlchemySession(BlockingAlchemy):
    """sqlalchemy.orm.Session over psycopg."""

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[AlchemySession]:
        with Session(create_engine(url(dsn, "psycopg"), **_fresh(isolation))) as session:
            yield cls(session, isolation)


class AwaitedAlchemy(Kind):
    """What SQLAlchemy's AsyncConnection and AsyncSession have in common."""

    tx: AsyncConnection | AsyncSession

    async def begin(self) -> None:
        await self.tx.begin()

    async def commit(self) -> None:
        await self.tx.commit()

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def savepoint(self) -> None:
        self.nested = await self.tx.begin_nested()

    async def rollback_to_savepoint(self) -> None:
        await self.nested.rollback()

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        result: Any = await self.tx.execute(text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []


class AlchemyAsyncConnection(AwaitedAlchemy):
    """sqlalchemy's AsyncConnection over asyncpg."""

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[AlchemyAsyncConnection]:
        engine = create_async_engine(url(dsn, "asyncpg"), **_fresh(isolation))
        async with engine.connect() as connection:
            yield cls(connection, isolation)


class AlchemyAsyncSession(AwaitedAlchemy):
    """sqlalchemy's AsyncSession over asyncpg."""

    driver: ClassVar[str] = "asyncpg"

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, isolation: str) -> AsyncIterator[AlchemyAsyncSession]:
        engine = create_async_engine(url(dsn, cls.driver), **_fresh(isolation))
        async with AsyncSession(engine) as session:
            yield cls(session, isolation)


class AlchemyAsyncSessionOnPsycopg(AlchemyAsyncSession):
    """sqlalchemy's AsyncSession over psycopg."""

    driver = "psycopg"


KINDS: tuple[type[Kind], ...] = (
    Psycopg,
    AsyncPsycopg,
    Asyncpg,
    PooledAsyncpg,
    AlchemyConnection,
    AlchemySession,
    AlchemyAsyncConnection,
    AlchemyAsyncSession,
    AlchemyAsyncSessionOnPsycopg,
)

_PSYCOPG_LEVELS = {
    READ_COMMITTED: psycopg.IsolationLevel.READ_COMMITTED,
    REPEATABLE_READ: psycopg.IsolationLevel.REPEATABLE_READ,
    SERIALIZABLE: psycopg.IsolationLevel.SERIALIZABLE,
}


def url(dsn: str, driver: str) -> str:
    """Return *dsn* as SQLAlchemy's URL for that driver."""
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of a driver's error, also inside of SQLAlchemy's."""
    inner = getattr(error, "orig", None) or error
    found: str | None = getattr(inner, "sqlstate", None)
    return found


@contextmanager
def driver_error(state: str) -> Iterator[None]:
    """Expect the driver's own error with that SQLSTATE, not one of ours in its place."""
    try:
        yield
    except Exception as error:
        if isinstance(error, wherry.WherryError) or sqlstate(error) != state:
            raise
    else:
        pytest.fail(f"no error came; expected one with SQLSTATE {state}")


def _fresh(isolation: str) -> dict[str, Any]:
    return {"poolclass": NullPool, "isolation_level": isolation}
