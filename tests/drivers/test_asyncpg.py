"""What a caller can have set on an asyncpg connection neither disturbs us nor is disturbed.

asyncpg asks for Python types that fit each parameter, and lets the caller replace every codec: what
we send and read is text, and text only.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

import wherry
from tests.drivers.conftest import Stored


class OwnRecord(asyncpg.Record):  # type: ignore[misc]
    """Records of the caller's own, which we could not read."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("read by somebody else")

    def __iter__(self) -> Any:
        raise AssertionError("read by somebody else")


class OwnConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection class of the caller's own."""


@pytest.fixture
async def tx(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def use(app: wherry.App, tx: Any) -> list[int]:
    """Enqueue one and many, also by statements that need a second look, and complete one."""
    ended = await app.aenqueue("t", key="ended", key_ttl=0, priority=2)
    leased = await app.aenqueue("t", priority=1)
    [first, second] = await app.alease(worker="w", max_tasks=2)
    await app.acomplete(first)

    one = await app.aenqueue("t", {"n": 1}, key="k", tx=tx)
    again = await app.aenqueue("t", {"n": 2}, key="k", tx=tx)
    many = await app.aenqueue_many(
        [{"type": "t", "key": "ended"}, {"type": "t", "key": "k"}], tx=tx, notify=False
    )
    await app.acomplete(second, result=[1], tx=tx)

    assert (first.id, second.id) == (ended.id, leased.id)
    assert one.created
    assert again == wherry.Enqueued(one.id, False, False)
    assert [(answer.created, answer.payload_matches) for answer in many] == [
        (True, True),
        (False, False),
    ]
    return [ended.id, leased.id, *sorted([one.id, many[0].id])]


async def test_the_callers_codecs_stay(
    app: wherry.App, tx: asyncpg.Connection, stored: Stored
) -> None:
    """With the usual codec a JSON text would be encoded once more, as one long string."""
    for name in ("json", "jsonb"):
        await tx.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    for name in ("int2", "int4", "int8", "bool", "uuid", "timestamptz", "float8"):
        await tx.set_type_codec(
            name, encoder=str, decoder=lambda text: f"{text}!", schema="pg_catalog", format="text"
        )

    async with tx.transaction():
        ids = await use(app, tx)

    assert stored() == ids
    assert await tx.fetchval("select 1::int8") == "1!"
    assert await tx.fetchval("""select '{"a": 1}'::jsonb""") == {"a": 1}


async def test_the_callers_records_stay(app: wherry.App, dsn: str, stored: Stored) -> None:
    tx = await asyncpg.connect(dsn, record_class=OwnRecord, connection_class=OwnConnection)
    try:
        async with tx.transaction():
            ids = await use(app, tx)

        assert stored() == ids
        assert type(await tx.fetchrow("select 1")) is OwnRecord
    finally:
        await tx.close()


async def test_nothing_stays_prepared_where_the_caller_forbade_it(
    app: wherry.App, dsn: str, stored: Stored
) -> None:
    """As behind a pooler in transaction mode."""
    tx = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        ids = await use(app, tx)

        assert stored() == ids
        assert await tx.fetchval("select count(*) from pg_prepared_statements") == 0
    finally:
        await tx.close()


async def test_a_cursor_of_the_caller_goes_on(
    app: wherry.App, tx: asyncpg.Connection, stored: Stored
) -> None:
    async with tx.transaction():
        cursor = await tx.cursor("select n from generate_series(1, 3) as n order by n")
        assert await cursor.fetchrow() == (1,)

        ids = await use(app, tx)

        assert [row[0] for row in await cursor.fetch(5)] == [2, 3]
    assert stored() == ids


async def test_an_open_transaction_is_left_as_it_is(
    app: wherry.App, tx: asyncpg.Connection
) -> None:
    await app.aenqueue("t", tx=tx)
    assert not tx.is_in_transaction()

    async with tx.transaction():
        await app.aenqueue("t", tx=tx)
        assert tx.is_in_transaction()


async def test_a_closed_connection_gives_the_drivers_own_error(
    app: wherry.App, tx: asyncpg.Connection
) -> None:
    await tx.close()

    with pytest.raises(asyncpg.InterfaceError, match="closed"):
        await app.aenqueue("t", tx=tx)


async def test_a_connection_given_back_to_its_pool_is_none(app: wherry.App, dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        async with pool.acquire() as tx:
            await app.aenqueue("t", tx=tx)

        with pytest.raises(asyncpg.InterfaceError, match="released"):
            await app.aenqueue("t", tx=tx)


async def test_a_pool_is_no_connection(app: wherry.App, dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool:
        with pytest.raises(TypeError, match=r"asyncpg.pool.Pool: .* `async with pool\.acquire\("):
            await app.aenqueue("t", tx=pool)

        acquiring = pool.acquire()
        with pytest.raises(TypeError, match="PoolAcquireContext: expected an open"):
            await app.aenqueue("t", tx=acquiring)
        async with acquiring as tx:
            assert (await app.aenqueue("t", tx=tx)).created


async def test_a_transaction_is_no_connection(app: wherry.App, tx: asyncpg.Connection) -> None:
    with pytest.raises(TypeError, match=r"asyncpg\.transaction\.Transaction: expected an open"):
        await app.aenqueue("t", tx=tx.transaction())
