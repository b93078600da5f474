"""What a caller can have set on a psycopg connection neither disturbs us nor is disturbed.

A cursor of our own class reads the answers, as text, whatever the connection's cursors do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, dict_row, scalar_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import wherry
from tests.drivers.conftest import Stored

Connect = Callable[..., psycopg.Connection[Any]]


class Shouting(Loader):
    """Reads every value as something that is of no use to us."""

    def load(self, data: Any) -> str:
        return f"{bytes(data).decode()}!"


class OwnCursor(psycopg.ClientCursor[Any]):
    """A cursor that will not do for anybody but its owner."""

    def execute(self, *args: Any, **options: Any) -> Any:
        assert args[0] == "select 1 as one"
        return super().execute(*args, **options)


@pytest.fixture
def tx(connect: Connect) -> psycopg.Connection[Any]:
    return connect(autocommit=False)


def use(app: wherry.App, tx: Any) -> list[int]:
    """Enqueue one and many, also by statements that need a second look, and complete one."""
    ended = app.enqueue("t", key="ended", key_ttl=0, priority=2)
    leased = app.enqueue("t", priority=1)
    [first, second] = app.lease(worker="w", max_tasks=2)
    app.complete(first)

    one = app.enqueue("t", {"n": 1}, key="k", tx=tx)
    again = app.enqueue("t", {"n": 2}, key="k", tx=tx)
    many = app.enqueue_many([{"type": "t", "key": "ended"}, {"type": "t", "key": "k"}], tx=tx)
    app.complete(second, result=[1], tx=tx)

    assert (first.id, second.id) == (ended.id, leased.id)
    assert one.created
    assert again == wherry.Enqueued(one.id, False, False)
    assert [(answer.created, answer.payload_matches) for answer in many] == [
        (True, True),
        (False, False),
    ]
    return [ended.id, leased.id, *sorted([one.id, many[0].id])]


@pytest.fixture
def blocking(dsn: str) -> Iterator[wherry.App]:
    with wherry.App(dsn) as app:
        yield app


@pytest.mark.parametrize("row_factory", [dict_row, scalar_row, class_row(dict)])
def test_the_callers_row_factory_stays(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored, row_factory: Any
) -> None:
    tx.row_factory = row_factory

    ids = use(blocking, tx)

    assert tx.row_factory is row_factory
    tx.commit()
    assert stored() == ids


def test_the_callers_cursors_stay(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored
) -> None:
    tx.cursor_factory = OwnCursor

    ids = use(blocking, tx)

    assert tx.cursor_factory is OwnCursor
    assert tx.execute("select 1 as one").fetchone() == (1,)
    tx.commit()
    assert stored() == ids


def test_the_callers_adapters_stay(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored
) -> None:
    for name in ("int4", "int8", "bool", "uuid", "json", "jsonb", "timestamptz", "bytea"):
        tx.adapters.register_loader(name, Shouting)

    ids = use(blocking, tx)

    assert tx.execute("select 1::int8").fetchone() == ("1!",)
    tx.commit()
    assert stored() == ids


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_the_callers_encoding_stays(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored, encoding: str
) -> None:
    tx.execute("select set_config('client_encoding', %s, false)", [encoding])

    enqueued = blocking.enqueue("t", {"é": "é"}, key="é", queue="é", tx=tx)
    ids = use(blocking, tx)

    tx.commit()
    assert stored() == sorted([enqueued.id, *ids])
    task = blocking.get_task(enqueued.id)
    assert task is not None
    assert (task.payload, task.key, task.queue) == ({"é": "é"}, "é", "é")


def test_nothing_is_prepared_where_the_caller_forbade_it(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored
) -> None:
    tx.prepare_threshold = None

    ids = [blocking.enqueue("t", tx=tx).id for _ in range(10)]

    assert tx.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
    tx.commit()
    assert stored() == ids


@contextmanager
def plain(tx: psycopg.Connection[Any]) -> Iterator[Any]:
    with tx.cursor() as cursor:
        yield cursor


@contextmanager
def client_side(tx: psycopg.Connection[Any]) -> Iterator[Any]:
    with psycopg.ClientCursor(tx) as cursor:
        yield cursor


@contextmanager
def server_side(tx: psycopg.Connection[Any]) -> Iterator[Any]:
    with tx.cursor("of_the_caller") as cursor:
        yield cursor


@pytest.mark.parametrize("cursor_of", [plain, client_side, server_side])
def test_a_cursor_stands_for_its_connection_and_keeps_its_results(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored, cursor_of: Any
) -> None:
    with cursor_of(tx) as cursor:
        cursor.execute("select n from generate_series(1, 3) as n order by n")
        assert cursor.fetchone() == (1,)

        ids = use(blocking, cursor)

        assert cursor.fetchall() == [(2,), (3,)]
    tx.commit()
    assert stored() == ids


def test_a_transaction_block_stands_for_its_connection(
    blocking: wherry.App, connect: Connect, stored: Stored
) -> None:
    with connect().transaction() as transaction:
        ids = use(blocking, transaction)

    assert stored() == ids


def test_a_pipeline_is_waited_for_and_stays(
    blocking: wherry.App, tx: psycopg.Connection[Any], stored: Stored
) -> None:
    with tx.pipeline() as pipeline:
        before = tx.execute("select 1")

        ids = use(blocking, tx)

        after = tx.execute("select 2")
        pipeline.sync()
        assert (before.fetchone(), after.fetchone()) == ((1,), (2,))
    tx.commit()
    assert stored() == ids


def test_a_lost_lease_is_told_in_a_pipeline(
    blocking: wherry.App, tx: psycopg.Connection[Any]
) -> None:
    blocking.enqueue("t")
    [lease] = blocking.lease(worker="w")
    blocking.release(lease)

    with tx.pipeline(), pytest.raises(wherry.LeaseLost):
        blocking.complete(lease, tx=tx)


async def test_an_async_pipeline_is_waited_for(app: wherry.App, dsn: str, stored: Stored) -> None:
    await app.aenqueue("t")
    [lease] = await app.alease(worker="w")
    async with await psycopg.AsyncConnection.connect(dsn) as tx:
        async with tx.pipeline():
            await tx.execute("select 1")

            await app.acomplete(lease, tx=tx)
            enqueued = await app.aenqueue("t", tx=tx)

        await tx.commit()
    assert stored() == [lease.id, enqueued.id]


def test_a_transaction_can_be_prepared_when_it_notifies_nobody(
    blocking: wherry.App, tx: psycopg.Connection[Any], connect: Connect, stored: Stored
) -> None:
    """Two-phase: PostgreSQL refuses to prepare what has notified; `notify=False` never does."""
    connect().execute(
        "insert into wherry.waiting (queue, instance, expires_at)"
        " values ('default', gen_random_uuid(), now() + interval '1 minute')"
    )
    tx.tpc_begin(tx.xid(1, "of the caller", "one"))
    enqueued = blocking.enqueue("t", key="k", notify=False, tx=tx)
    many = blocking.enqueue_many([{"type": "t"}], notify=False, tx=tx)
    tx.tpc_prepare()
    assert stored() == []

    tx.tpc_commit()

    assert stored() == [enqueued.id, many[0].id]
    tx.tpc_begin(tx.xid(1, "of the caller", "two"))
    blocking.enqueue("t", tx=tx)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        tx.tpc_prepare()


def test_a_completion_can_be_prepared(blocking: wherry.App, tx: psycopg.Connection[Any]) -> None:
    blocking.enqueue("t")
    [lease] = blocking.lease(worker="w")
    tx.tpc_begin(tx.xid(1, "of the caller", "three"))
    blocking.complete(lease, tx=tx)
    tx.tpc_prepare()
    assert blocking.complete(lease) is wherry.Reported.BUSY

    tx.tpc_commit()

    assert blocking.complete(lease) is wherry.Reported.ALREADY_DONE


def test_the_status_of_the_connection_is_what_a_statement_makes_of_it(
    blocking: wherry.App, connect: Connect
) -> None:
    begun, autocommit = connect(autocommit=False), connect()

    blocking.enqueue("t", tx=begun)
    blocking.enqueue("t", tx=autocommit)

    assert begun.info.transaction_status is TransactionStatus.INTRANS
    assert autocommit.info.transaction_status is TransactionStatus.IDLE


def test_a_closed_connection_gives_the_drivers_own_error(
    blocking: wherry.App, tx: psycopg.Connection[Any]
) -> None:
    tx.close()

    with pytest.raises(psycopg.OperationalError, match="closed"):
        blocking.enqueue("t", tx=tx)


async def test_a_closed_async_connection_gives_the_drivers_own_error(
    app: wherry.App, dsn: str
) -> None:
    tx = await psycopg.AsyncConnection.connect(dsn)
    await tx.close()

    with pytest.raises(psycopg.OperationalError, match="closed"):
        await app.aenqueue("t", tx=tx)


@pytest.fixture
async def pools(dsn: str) -> AsyncIterator[list[Any]]:
    async with AsyncConnectionPool(dsn, min_size=0, max_size=2, open=False) as awaited:
        with ConnectionPool(dsn, min_size=0, max_size=2, open=False) as blocking:
            yield [awaited, blocking]


async def test_a_pool_is_no_connection(app: wherry.App, pools: list[Any]) -> None:
    awaited, blocking = pools

    with pytest.raises(TypeError, match=r"AsyncConnectionPool: .* `async with pool\.connection\("):
        await app.aenqueue("t", tx=awaited)
    with pytest.raises(TypeError, match=r"\.ConnectionPool: .* `with pool\.connection\(\)"):
        app.enqueue("t", tx=blocking)
    with pytest.raises(TypeError, match="expected an open psycopg Connection"):
        app.enqueue("t", tx=blocking.connection())


async def test_a_pools_connection_is_one(app: wherry.App, pools: list[Any], stored: Stored) -> None:
    awaited, blocking = pools

    async with awaited.connection() as tx:
        first = await app.aenqueue("t", tx=tx)
    with blocking.connection() as tx:
        second = app.enqueue("t", tx=tx)

    assert stored() == [first.id, second.id]
