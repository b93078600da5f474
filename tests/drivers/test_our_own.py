"""On our own connections statements go around psycopg's cursors, and mean the same."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import wherry
from tests.facts import await_for, wait_for, wait_until_blocked
from wherry.commands.leases import LeaseTasks
from wherry.commands.tasks import EnqueueTasks
from wherry.config import PoolSettings
from wherry.domain.options import Options
from wherry.transport import pool, pool_blocking
from wherry.transport.bounded import AsyncReserved
from wherry.transport.patience import Patience
from wherry.transport.session import SessionTransport

Connect = Callable[..., psycopg.Connection[Any]]
OURS = (
    " from pg_stat_activity where application_name = 'wherry app' and datname = current_database()"
)
HELD = f"select count(*) {OURS} and wait_event_type = 'Lock'".encode()
# It waits until they are gone.
END_ALL = f"select pg_terminate_backend(pid, 30000) {OURS}".encode()


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


async def test_a_lease_is_of_the_types_that_were_named_whatever_stands_in_their_names(
    app: wherry.App, dsn: str
) -> None:
    types = ("é", 'a"b', "c\\d", "e,f", "{g}", "null", " h ")
    for type in (*types, "e", "c"):
        await app.aenqueue(type, queue='"q"')
    session = SessionTransport(dsn, schema="wherry", name="wherry test", settings=PoolSettings())

    leases = await session.call(
        LeaseTasks(queue='"q"', worker="é", limit=9, types=types, lease_seconds=0.5)
    )
    await session.close()

    assert [(lease.type, lease.attempt) for lease in leases] == [(type, 1) for type in types]


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
    connect().execute(END_ALL)

    ids += [app.enqueue("t").id for _ in range(3)]

    rows = connect().execute("select id from wherry.live order by id").fetchall()
    assert [id for (id,) in rows] == ids


@pytest.mark.parametrize("blocking", [True, False])
async def test_those_that_died_while_they_lay_idle_are_passed_without_a_pause(
    dsn: str, connect: Connect, monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    """A restart ends them all, and one thread alone meets them one by one."""
    pauses: list[float] = []

    class Told(Patience):
        def next_pause(self, *, after: float = 0.0) -> float:
            pauses.append(super().next_pause(after=after))
            return pauses[-1]

    monkeypatch.setattr(pool_blocking if blocking else pool, "Patience", Told)
    sql = connect()
    async with wherry.App(dsn, pool_size=5) as app:

        async def enqueue() -> None:
            await (to_thread(app.enqueue, "t") if blocking else app.aenqueue("t"))

        with sql.transaction():
            sql.execute("lock table wherry.live in exclusive mode")
            many = asyncio.gather(*(enqueue() for _ in range(5)))
            await await_for(lambda: connect().execute(HELD).fetchone() == (5,))
        await many
        sql.execute(END_ALL)

        await enqueue()

    assert pauses == []
    assert sql.execute("select count(*) from wherry.live").fetchone() == (6,)


# What a deferred trigger does happens at the commit, after the statement has told its result.
AT_THE_FIRST_COMMIT = """
create sequence tries;
create function spoil() returns trigger language plpgsql as $$ begin
    if nextval('tries') = 1 then
        {spoiled};
    end if;
    return null;
end $$;
create constraint trigger spoil after insert on wherry.live
    deferrable initially deferred for each row execute function spoil();
"""
ENDED = "perform pg_terminate_backend(pg_backend_pid()), pg_sleep(60)"
REFUSED = "raise exception 'not today'"


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_session_that_ends_at_the_commit_is_a_lost_one(
    app: wherry.App, connect: Connect, blocking: bool
) -> None:
    connect().execute(AT_THE_FIRST_COMMIT.format(spoiled=ENDED).encode())

    stored = await (to_thread(app.enqueue, "t") if blocking else app.aenqueue("t"))

    assert connect().execute("select id from wherry.live").fetchall() == [(stored.id,)]


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_commit_that_is_refused_is_an_error_of_the_server(
    app: wherry.App, connect: Connect, blocking: bool
) -> None:
    connect().execute(AT_THE_FIRST_COMMIT.format(spoiled=REFUSED).encode())

    with pytest.raises(psycopg.errors.RaiseException, match="not today"):
        await (to_thread(app.enqueue, "t") if blocking else app.aenqueue("t"))

    assert connect().execute("select id from wherry.live").fetchall() == []


class InTransaction(EnqueueTasks):
    """The same, as it is when it is sent again with a key."""

    @property
    def atomic(self) -> bool:
        """Whether it needs a transaction."""
        return True


@pytest.mark.parametrize("kind", [EnqueueTasks, InTransaction])
async def test_what_somebody_in_between_has_forgotten_is_prepared_anew(
    dsn: str, kind: type[EnqueueTasks]
) -> None:
    """As psycopg does itself after a rollback, once it has prepared something of its own."""
    session = SessionTransport(dsn, schema="wherry", name="wherry test", settings=PoolSettings())
    command = kind((Options().spec("t", "{}"),))
    [first] = await session.call(command)

    await (await session.connection()).execute("deallocate all")
    [second] = await session.call(command)
    await session.close()

    assert second.id > first.id


async def test_ids_that_a_lost_future_had_drawn_are_drawn_anew(
    app: wherry.App, connect: Connect, dsn: str
) -> None:
    """As after a failover to a copy that lacked the last seconds."""
    [[high]] = connect().execute("select nextval('wherry.task_id')").fetchall()
    stale = [await app.aenqueue("t"), await to_thread(app.enqueue, "t")]
    connect().execute("select setval('wherry.task_id', %s)", [high])
    connect().execute("delete from wherry.live")
    async with wherry.App(dsn) as other:
        theirs = [(await other.aenqueue("t")).id for _ in range(4)]

    ours = [(await app.aenqueue("t")).id, (await to_thread(app.enqueue, "t")).id]
    many = await app.aenqueue_many([{"type": "t"}] * 2)

    assert {each.id for each in stale} <= set(theirs)
    rows = connect().execute("select id from wherry.live").fetchall()
    assert sorted(id for (id,) in rows) == sorted([*theirs, *ours, *(each.id for each in many)])


async def test_a_key_names_no_task_of_others_whose_id_was_drawn_twice(
    app: wherry.App, connect: Connect, dsn: str
) -> None:
    first = await app.aenqueue("t")
    connect().execute("select setval('wherry.task_id', %s)", [first.id])
    async with wherry.App(dsn) as other:
        theirs = await other.aenqueue("t")

    ours = await app.aenqueue("t", key="k")

    assert ours.created
    assert ours.id > theirs.id
    stored = connect().execute("select id, key from wherry.live order by id").fetchall()
    assert stored == [
        (first.id, None),
        (theirs.id, None),
        (ours.id, "k"),
    ]
    assert (await app.aenqueue("t", key="k")).id == ours.id


async def test_an_answer_that_has_come_is_read_without_the_loop(
    dsn: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, waits, other, observer = asyncio.get_running_loop(), [0], connect(), connect()
    add_reader = loop.add_reader

    def counted(*args: Any) -> None:
        waits.append(waits.pop() + 1)
        add_reader(*args)

    other.execute("select pg_advisory_lock(1)")
    async with await AsyncReserved.connect(dsn, autocommit=True) as ours:
        monkeypatch.setattr(loop, "add_reader", counted)
        reading = asyncio.create_task(
            ours.execute(
                "with held as materialized (select pg_advisory_lock(1))"
                " select repeat('x', 1000) from held, generate_series(1, 100)"
            )
        )
        await to_thread(wait_until_blocked, observer, ours, by=other)
        before = waits[0]

        # From here on the loop stands still until the server has sent all.
        other.execute("select pg_advisory_unlock(1)")
        wait_for(
            lambda: (
                observer.execute(
                    "select from pg_stat_activity where pid = %s and state = 'idle'",
                    [ours.info.backend_pid],
                ).fetchone()
                is not None
            )
        )
        cursor = await reading

        assert len(await cursor.fetchall()) == 100
        # In pieces of 16 kB it would be six; the last bytes may come after the state.
        assert waits[0] - before <= 2
