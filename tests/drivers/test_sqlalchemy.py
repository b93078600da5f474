"""What a caller does with an SQLAlchemy connection or session neither disturbs us nor is disturbed.

A session is asked for its connection and for nothing else: no flush, no event of a statement, no
end of a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import Delete, Engine, NullPool, Update, create_engine, event, text
from sqlalchemy.exc import InvalidRequestError, PendingRollbackError, ResourceClosedError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session
from sqlalchemy.orm import sessionmaker as make_sessionmaker

import wherry
from tests.drivers.conftest import Stored
from tests.drivers.kinds import url


class Base(DeclarativeBase):
    """The models of the caller."""


class Order(Base):
    """An order that cannot be flushed without a name."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(nullable=False)


class Routed(Session):
    """The well-known recipe: what writes goes to the leader, all else elsewhere."""

    def get_bind(self, mapper: Any = None, *, clause: Any = None, **_: Any) -> Any:
        writes = self._flushing or isinstance(clause, Update | Delete)
        return self.info["leader" if writes else "follower"]


@pytest.fixture
def engine(dsn: str) -> Engine:
    made = create_engine(url(dsn, "psycopg"), poolclass=NullPool)
    Base.metadata.create_all(made)
    return made


@pytest.fixture
def elsewhere() -> Iterator[Engine]:
    made = create_engine("sqlite://")
    yield made
    made.dispose()


@pytest.fixture
async def async_engine(dsn: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(url(dsn, "asyncpg"))
    yield made
    await made.dispose()


@pytest.fixture
def blocking(dsn: str) -> Iterator[wherry.App]:
    with wherry.App(dsn) as app:
        yield app


def test_a_session_is_not_flushed(blocking: wherry.App, engine: Engine, stored: Stored) -> None:
    seen: list[Any] = []
    with Session(engine) as session:
        session.add(order := Order())
        event.listen(session, "before_flush", lambda *_: seen.append("flush"))
        event.listen(session, "do_orm_execute", lambda _: seen.append("execute"))

        enqueued = blocking.enqueue("t", key="k", tx=session)
        blocking.enqueue_many([{"type": "t", "key": "k"}], tx=session)

        assert seen == []
        assert (order in session.new, session.autoflush, session.in_transaction()) == (
            True,
            True,
            True,
        )
        order.name = "complete now"
        session.commit()
    assert seen == ["flush"]
    assert stored() == [enqueued.id]


def test_a_session_begins_by_itself_or_not_at_all(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with Session(engine) as session:
        blocking.enqueue("t", tx=session)
        session.rollback()
        assert stored() == []

        enqueued = blocking.enqueue("t", tx=session)
        session.commit()
        assert stored() == [enqueued.id]

    with (
        Session(engine, autobegin=False) as session,
        pytest.raises(InvalidRequestError, match=r"[Aa]utobegin is disabled"),
    ):
        blocking.enqueue("t", tx=session)


def test_a_connection_begins_by_itself(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with engine.connect() as connection:
        blocking.enqueue("t", tx=connection)
        assert connection.in_transaction()

    assert stored() == []


def test_a_nested_block_takes_its_task_back(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with Session(engine) as session, session.begin():
        kept = blocking.enqueue("t", tx=session)
        nested = session.begin_nested()
        blocking.enqueue("t", key="k", tx=session)
        nested.rollback()
        assert blocking.enqueue("t", key="k", tx=session).created
        with session.begin_nested():
            last = blocking.enqueue("t", tx=session)

    assert stored()[0] == kept.id
    assert stored()[-1] == last.id
    assert len(stored()) == 3


def test_a_session_that_waits_for_its_rollback_says_so(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with Session(engine) as session:
        session.add(Order())
        with pytest.raises(Exception, match="null value"):
            session.flush()

        with pytest.raises(PendingRollbackError):
            blocking.enqueue("t", tx=session)

        session.rollback()
        enqueued = blocking.enqueue("t", tx=session)
        session.commit()
    assert stored() == [enqueued.id]


def test_a_session_in_a_test_that_rolls_everything_back_joins_it(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            blocking.enqueue("t", key="k", tx=session)
            session.commit()
            assert not blocking.enqueue("t", key="k", tx=session).created
        outer.rollback()

    assert stored() == []


def test_a_session_with_engines_of_its_own_for_models_uses_its_first_one(
    blocking: wherry.App, engine: Engine, elsewhere: Engine, stored: Stored
) -> None:
    with Session(engine, binds={Order: elsewhere}) as session:
        enqueued = blocking.enqueue("t", tx=session)
        session.commit()

    assert stored() == [enqueued.id]


def test_a_session_that_cannot_say_which_engine_is_refused_with_advice(
    blocking: wherry.App, engine: Engine, stored: Stored
) -> None:
    with Session(binds={Order: engine}) as session:
        with pytest.raises(TypeError, match=r"session\.connection\(bind_arguments="):
            blocking.enqueue("t", tx=session)

        there = session.connection(bind_arguments={"mapper": Order})
        enqueued = blocking.enqueue("t", tx=there)
        session.commit()
    assert stored() == [enqueued.id]


def test_a_session_that_routes_is_told_that_we_write(
    blocking: wherry.App, engine: Engine, elsewhere: Engine, stored: Stored
) -> None:
    with Routed(info={"leader": engine, "follower": elsewhere}) as session:
        enqueued = blocking.enqueue("t", tx=session)
        session.commit()

    assert stored() == [enqueued.id]


def test_another_kind_of_database_is_refused(blocking: wherry.App, elsewhere: Engine) -> None:
    with (
        elsewhere.connect() as connection,
        pytest.raises(TypeError, match="to sqlite; Wherry's tables are in PostgreSQL"),
    ):
        blocking.enqueue("t", tx=connection)


@pytest.mark.parametrize("options", [{"stream_results": True}, {"yield_per": 10}])
async def test_the_callers_options_for_large_results_stay(
    app: wherry.App, engine: Engine, async_engine: AsyncEngine, stored: Stored, options: Any
) -> None:
    with engine.connect() as connection:
        connection.execution_options(**options)
        first = app.enqueue("t", key="k", tx=connection)
        assert connection.get_execution_options() == options
        connection.commit()
    async with async_engine.connect() as awaited:
        await awaited.execution_options(**options)
        second = await app.aenqueue("t", key="k", tx=awaited)
        await awaited.commit()

    assert second.id == first.id
    assert stored() == [first.id]


async def test_a_scoped_session_stands_for_the_current_one(
    app: wherry.App, engine: Engine, async_engine: AsyncEngine, stored: Stored
) -> None:
    scoped = scoped_session(make_sessionmaker(engine))
    async_scoped = async_scoped_session(async_sessionmaker(async_engine), asyncio.current_task)

    first = app.enqueue("t", tx=scoped)
    second = await app.aenqueue("t", tx=async_scoped)

    assert stored() == []
    scoped.commit()
    await async_scoped.commit()
    assert stored() == [first.id, second.id]
    scoped.remove()
    await async_scoped.remove()


async def test_a_blocking_tx_is_taken_inside_of_run_sync(
    app: wherry.App, async_engine: AsyncEngine, stored: Stored
) -> None:
    """The loop is running, but it is SQLAlchemy that waits there."""
    async with async_engine.begin() as connection:
        first = await connection.run_sync(lambda tx: app.enqueue("t", {"n": 1}, tx=tx))
    async with AsyncSession(async_engine) as session, session.begin():
        second = await session.run_sync(lambda tx: app.enqueue("t", {"n": 2}, tx=tx))

    assert stored() == [first.id, second.id]


async def test_the_raw_connection_is_gone_around(
    app: wherry.App, async_engine: AsyncEngine, stored: Stored
) -> None:
    """ECOSYSTEM 9: sent to the driver's connection, the first statement would commit by itself."""
    async with async_engine.connect() as connection:
        await app.aenqueue("t", tx=connection)
        await connection.rollback()
    async with AsyncSession(async_engine) as session:
        await app.aenqueue("t", tx=session)
        await session.rollback()

    assert stored() == []


async def test_what_makes_connections_is_none(
    app: wherry.App, engine: Engine, async_engine: AsyncEngine
) -> None:
    blocking = {"Engine": engine, "sessionmaker": make_sessionmaker(engine)}
    awaited = {"AsyncEngine": async_engine, "async_sessionmaker": async_sessionmaker(async_engine)}

    for name, tx in blocking.items():
        with pytest.raises(TypeError, match=rf"\.{name}: .* `with it\.begin\(\) as tx: \.\.\.`"):
            app.enqueue("t", tx=tx)
    for name, tx in awaited.items():
        with pytest.raises(TypeError, match=rf"\.{name}: .* `async with it\.begin\(\) as tx: "):
            await app.aenqueue("t", tx=tx)


def test_what_belongs_to_a_connection_is_none(blocking: wherry.App, engine: Engine) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        with pytest.raises(TypeError, match="RootTransaction: expected an open"):
            blocking.enqueue("t", tx=transaction)
        with pytest.raises(TypeError, match="_ConnectionFairy: expected an open"):
            blocking.enqueue("t", tx=connection.connection)


async def test_a_closed_connection_gives_sqlalchemys_own_error(
    app: wherry.App, engine: Engine, async_engine: AsyncEngine
) -> None:
    with engine.connect() as connection:
        pass
    async with async_engine.connect() as awaited:
        pass

    with pytest.raises(ResourceClosedError):
        app.enqueue("t", tx=connection)
    with pytest.raises(ResourceClosedError):
        await app.aenqueue("t", tx=awaited)


def test_a_statement_of_the_callers_sees_the_task(blocking: wherry.App, engine: Engine) -> None:
    with Session(engine) as session:
        enqueued = blocking.enqueue("t", tx=session)

        seen = session.scalars(text("select id from wherry.tasks")).all()

    assert seen == [enqueued.id]
