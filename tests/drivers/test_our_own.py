"""On our own connections statements go around psycopg's cursors, and mean the same."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import wherry
from wherry.domain.options import Options

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII"])
async def test_any_encoding_will_do(dsn: str, encoding: str) -> None:
    async with wherry.App(make_conninfo(dsn, client_encoding=encoding)) as app:
        blocking = await to_thread(app.enqueue, "é", {"é": "é"}, queue="é", tags=["é"])
        [awaited, _] = await app.aenqueue_many(2 * [{"type": "é", "payload": {"é": "é"}}])
        keyed = await app.aenqueue("é", {"é": "é"}, key="é")
        again = await app.aenqueue("é", {"é": "é"}, key="é")

    async with wherry.App(dsn) as app:
        for id in (blocking.id, awaited.id, keyed.id):
            task = await app.aget_task(id)
            assert task is not None
            assert (task.type, task.payload) == ("é", {"é": "é"})
    assert again == wherry.Enqueued(keyed.id, False, True)


async def test_a_refusal_is_the_servers_own_and_the_connection_stays_of_use(
    app: wherry.App, connect: Connect
) -> None:
    bad = Options().spec("t", "{}")._replace(priority=1000)
    for many in ([bad], [bad, bad]):
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            await to_thread(app.enqueue_specs, many)
        with pytest.raises(psycopg.errors.CheckViolation):
            await app.aenqueue_specs(many)
        assert refused.value.diag.constraint_name == "live_priority_in_range"

    await to_thread(app.enqueue, "t")
    await app.aenqueue("t")

    [[connections, stored]] = (
        connect()
        .execute(
            "select (select count(*) from pg_stat_activity where application_name = 'wherry app'"
            " and datname = current_database()), (select count(*) from wherry.live)"
        )
        .fetchall()
    )
    assert (connections, stored) == (2, 2)


def test_a_lost_connection_is_made_anew_with_what_was_prepared(
    app: wherry.App, connect: Connect
) -> None:
    ids = [app.enqueue("t").id]
    connect().execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'wherry app' and datname = current_database()"
    )

    ids += [app.enqueue("t").id for _ in range(3)]

    rows = connect().execute("select id from wherry.live order by id").fetchall()
    assert [id for (id,) in rows] == ids
