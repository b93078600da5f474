"""A database in trouble costs time, and neither a task, nor a second run, nor a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import wherry
from tests.facts import await_for
from tests.lateness import late_machine
from tests.worker.support import Slots, all_finished, at_work, finished, get, set_for_all
from wherry.domain.state import State
from wherry.domain.task import Task

Connect = Callable[..., psycopg.Connection[Any]]
WRITABLE = {"options": "-c default_transaction_read_only=off"}


def cut(connection: psycopg.Connection[Any]) -> int:
    """Terminate every session of ours in this test's database; return how many there were."""
    [[count]] = connection.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name like 'wherry %'"
    ).fetchall()
    return int(count)


def fail_at(connection: psycopg.Connection[Any], table: str, *, sqlstate: str, times: int) -> None:
    """Make the next few inserts into a table fail."""
    connection.execute("create sequence failures")
    connection.execute(
        sql.SQL(
            """
            create function fail() returns trigger language plpgsql as $$
            begin
                if nextval('failures') <= {times} then
                    raise exception 'as ordered' using errcode = {sqlstate};
                end if;
                return new;
            end
            $$
            """
        ).format(times=sql.Literal(times), sqlstate=sql.Literal(sqlstate))
    )
    connection.execute(
        sql.SQL(
            "create trigger fails before insert on wherry.{} for each row execute function fail()"
        ).format(sql.Identifier(table))
    )


@pytest.mark.parametrize("table", ["lease", "finished"])
@pytest.mark.parametrize(
    "sqlstate",
    [
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # a lock was not had in time
        "57014",  # the statement was canceled, or took too long
        "53100",  # the disk is full
        "XX000",  # "tuple concurrently updated" and the like
    ],
)
async def test_what_goes_wrong_in_our_own_statements_is_not_the_handlers_business(
    app: wherry.App, connect: Connect, table: str, sqlstate: str
) -> None:
    """RET-08."""
    starts: Counter[int] = Counter()

    @app.task(name="t", max_attempts=1)
    async def t(n: int) -> None:
        starts[n] += 1

    ids = [(await app.aenqueue("t", {"n": n})).id for n in range(3)]
    # More often than a statement is repeated at once, where it is.
    times = 7 if sqlstate.startswith(("40", "55")) else 3
    fail_at(connect(), table, sqlstate=sqlstate, times=times)

    async with at_work(app, poll_every=timedelta(seconds=0.05)):
        tasks = [await finished(app, id_) for id_ in ids]

    assert {(task.state, task.attempts) for task in tasks} == {(State.SUCCEEDED, 1)}
    assert starts == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_databases_own_isolation_level_disturbs_nothing(
    app: wherry.App, connect: Connect, isolation: str
) -> None:
    """TXN-06, DBL-13."""
    set_for_all(connect(), default_transaction_isolation=isolation)
    starts: Counter[int] = Counter()

    @app.task(name="t", max_attempts=1)
    async def t(n: int) -> None:
        starts[n] += 1
        await asyncio.sleep(0)

    last = (
        await app.aenqueue_many(
            [{"type": "t", "payload": {"n": n}, "max_attempts": 1} for n in range(600)]
        )
    )[-1]

    async with (
        at_work(app, name="a", concurrency=8),
        at_work(app, name="b", concurrency=8),
        at_work(app, name="c", concurrency=8),
    ):
        await finished(app, last.id)
        await await_for(lambda: len(starts) == 600)

    connection = connect()
    ended = connection.execute("select state, count(*) from wherry.finished group by 1").fetchall()
    assert ended == [("succeeded", 600)]
    assert set(starts.values()) == {1}


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_limited_queue_is_leased_from_at_any_databases_own_level(
    app: wherry.App, connect: Connect, isolation: str
) -> None:
    """TXN-06: limits are counted at read committed only, so our own sessions set the level."""
    set_for_all(connect(), default_transaction_isolation=isolation)

    @app.task(name="t")
    async def t() -> None:
        pass

    await app.aset_queue_limits("default", max_running=3)
    made = await t.aenqueue_many([{}] * 20)
    async with at_work(app):
        tasks = await all_finished(app, [each.id for each in made])

    assert {(task.state, task.attempts) for task in tasks} == {(State.SUCCEEDED, 1)}


async def test_no_transaction_is_open_while_a_handler_runs(
    app: wherry.App, connect: Connect
) -> None:
    """TXN-10: nor does a tight limit of the database fail any statement of ours."""
    connection = connect()
    set_for_all(
        connection,
        idle_in_transaction_session_timeout="500ms",
        statement_timeout="300ms",
        lock_timeout="100ms",
    )

    @app.task(name="long", max_attempts=1)
    async def long() -> None:
        await asyncio.sleep(4)

    @app.task(name="plain", max_attempts=1)
    def plain() -> None:
        wherry.current().wait_cancelled(4)

    open_seconds = [0.0]

    async def both_finished() -> bool:
        # One after the other, so that no statement is between two looks.
        open_seconds.extend(
            float(seconds)
            for (seconds,) in connection.execute(
                "select extract(epoch from now() - state_change) from pg_stat_activity"
                " where datname = current_database() and application_name like 'wherry %'"
                "   and state like 'idle in transaction%'"
            ).fetchall()
        )
        return all([(await get(app, id_)).state.is_final for id_ in ids])

    ids = [(await app.aenqueue(name)).id for name in ("long", "plain")]
    with late_machine() as machine:
        async with at_work(app, lease_for=2):
            await await_for(both_finished)  # type: ignore[arg-type]

    # A machine that is late is late at each step on the way: of the loop, of the keeper's thread,
    # and of the database.
    assert max(open_seconds) < 0.3 + 20 * machine.longest
    for id_ in ids:
        task = await get(app, id_)
        assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())


async def test_every_session_may_be_cut_at_any_time(app: wherry.App, connect: Connect) -> None:
    """DB-17, LOST-09: between a handler's return and its commit, too."""
    slots = Slots(app, 4)
    starts: Counter[int] = Counter()

    @app.task(name="t", max_attempts=3)
    async def t(n: int) -> None:
        starts[n] += 1
        await asyncio.sleep(0.01)

    await app.aenqueue_many([{"type": "t", "payload": {"n": n}} for n in range(300)])
    connection = connect()

    def ended() -> list[tuple[str, int]]:
        return connection.execute(
            "select state, count(*) from wherry.finished group by 1"
        ).fetchall()

    async with at_work(app, concurrency=4, lease_for=2, poll_every=timedelta(seconds=0.1)):
        for _ in range(15):
            cut(connection)
            await asyncio.sleep(0.05)
        await await_for(lambda: ended() == [("succeeded", 300)], seconds=30)
        await slots.are_all_used()

    # A lease whose answer was cut off came back unstarted: no task ran twice.
    assert set(starts.values()) == {1}


async def test_a_database_that_turns_read_only_is_left_until_it_is_writable(
    app: wherry.App, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """DB-03: SELECT 1 still works, and every write fails."""
    connection = connect(**WRITABLE)

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, poll_every=timedelta(seconds=0.1)):
        await finished(app, (await app.aenqueue("t")).id)
        set_for_all(connection, default_transaction_read_only="on")
        cut(connection)
        async with wherry.App(app.dsn, pool_timeout=3) as impatient:
            with pytest.raises(wherry.errors.ReadOnly, match="read-only"):
                await impatient.aenqueue("t")
        await await_for(lambda: "waiting for the database" in caplog.text)
        set_for_all(connection, default_transaction_read_only="off")
        # Sessions that were made meanwhile are of no more use: they must be replaced by themselves.
        task = await finished(app, (await app.aenqueue("t")).id)

    assert task.state is State.SUCCEEDED
    assert len([r for r in caplog.records if "waiting for the database" in r.getMessage()]) == 1


@pytest.fixture
def humble(dsn: str) -> Iterator[str]:
    """A role without the right to go past limits: the DSN with it."""
    role = f"wherry_humble_{secrets.token_hex(6)}"
    name = sql.Identifier(role)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(name))
        admin.execute(sql.SQL("grant usage on schema wherry to {}").format(name))
        admin.execute(sql.SQL("grant all on all tables in schema wherry to {}").format(name))
        admin.execute(sql.SQL("grant all on all sequences in schema wherry to {}").format(name))
        admin.execute(sql.SQL("grant all on all functions in schema wherry to {}").format(name))
    yield make_conninfo(dsn, user=role)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop owned by {} cascade").format(name))
        admin.execute(sql.SQL("drop role {}").format(name))


async def test_connections_that_are_all_taken_are_waited_for(
    humble: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    app = wherry.App(humble)

    @app.task(name="t")
    async def t() -> None:
        pass

    connection = connect()
    limit = sql.SQL("alter database {} connection limit {}")
    name = sql.Identifier(connection.info.dbname)
    async with at_work(app, poll_every=timedelta(seconds=0.1)):
        await finished(app, (await app.aenqueue("t")).id)
        connection.execute(limit.format(name, sql.Literal(1)))
        cut(connection)
        await await_for(lambda: "waiting for the database" in caplog.text)
        connection.execute(limit.format(name, sql.Literal(-1)))
        task: Task = await finished(app, (await app.aenqueue("t")).id)
    await app.aclose()

    assert task.state is State.SUCCEEDED
    assert len(caplog.records) <= 6
