"""What waiting costs the database, and what waiting polls do while the database is away."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests import rhythms
from tests.facts import await_for
from tests.rhythms import nothing_is_due, too_often, while_idle
from tests.server.test_desk import end, poll, settled
from tests.statements import Sent, count_statements
from tests.worker.test_trouble import cut
from wherry.server.caller import ANYBODY
from wherry.server.running import Running

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return count_statements(monkeypatch)


class Switch:
    """Takes the test's database away from everybody, and gives it back."""

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        self._connection = connection
        self._name = name

    def _allow(self, allowed: bool) -> None:
        statement = "alter database {} with allow_connections {}"
        self._connection.execute(
            sql.SQL(statement).format(sql.Identifier(self._name), sql.Literal(allowed))
        )

    def off(self) -> None:
        self._allow(False)
        self._connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
            [self._name],
        )

    def on(self) -> None:
        self._allow(True)

    @contextmanager
    def away(self) -> Generator[None]:
        self.off()
        try:
            yield
        finally:
            self.on()


@pytest.fixture
def switch(dsn: str) -> Iterator[Switch]:
    elsewhere = make_conninfo(dsn, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True, connect_timeout=10) as connection:
        made = Switch(connection, str(conninfo_to_dict(dsn)["dbname"]))
        yield made
        made.on()


async def test_two_hundred_idle_polls_cost_less_than_a_statement_a_second(
    connect: Connect, running: Running, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything else that a server does: maintenance, beats, marks."""
    nothing_is_due(connect(), monkeypatch)
    polls = [poll(running.service, n, queues=["a", "b", "*"][n % 3]) for n in range(200)]
    await settled(running, "a", "b", "", waiting=200)
    await await_for(partial(all_are_told_of, running), seconds=30)

    names, seconds = await while_idle(sent)

    assert too_often(names, rhythms.SERVER, seconds=seconds) == {}
    assert rhythms.a_second(rhythms.SERVER) < 1
    await end(polls)


async def all_are_told_of(running: Running) -> Any:
    """Two hundred workers are listed."""
    return len(await running.service.list_workers(ANYBODY)) == 200


async def test_idle_polls_that_end_and_come_back_cost_nothing_more(
    running: Running, sent: Sent
) -> None:
    stays = poll(running.service, 0)
    await settled(running, waiting=1)
    assert await poll(running.service, 1, wait=0.05) == []
    sent.clear()

    for n in range(200):
        assert await poll(running.service, n, wait=0.001) == []

    assert sent.count("leases/lease_for_pollers") == 0
    await end([stays])


async def test_polls_go_on_waiting_while_the_database_is_away_and_get_tasks_when_it_is_back(
    running: Running, dsn: str, switch: Switch
) -> None:
    waiting = poll(running.service)
    await settled(running, waiting=1)

    with switch.away():
        with pytest.raises(wherry.Unavailable):
            await running.service.lease(ANYBODY, worker="hasty", wait=0)
        with pytest.raises(wherry.Unavailable):
            await running.service.lease(ANYBODY, worker="patient", wait=0.3)
        assert not waiting.done()
    async with wherry.App(dsn) as other:
        task = await other.aenqueue("t")

    # It would wait for 30 s, and be told that there is nothing.
    [lease] = await asyncio.wait_for(waiting, timeout=20)
    assert lease.id == task.id


async def test_a_poll_whose_time_ends_while_the_database_is_away_is_told_so(
    running: Running, switch: Switch
) -> None:
    waiting = poll(running.service, wait=3)
    await settled(running, waiting=1)

    with switch.away(), pytest.raises(wherry.Unavailable):
        await waiting

    async def answer() -> str:
        # Until the desk has found out that the database is back, it says the same.
        try:
            return f"leased {len(await poll(running.service, 2, wait=0.01))}"
        except wherry.Unavailable:
            return ""

    said: str = await await_for(answer)
    assert said == "leased 0"


async def test_a_lost_connection_loses_no_poll(
    running: Running, app: wherry.App, connect: Connect
) -> None:
    polls = [poll(running.service, n) for n in range(3)]
    await settled(running, waiting=3)

    for _ in range(3):
        cut(connect())
        await app.aenqueue("t")

    leases = await asyncio.wait_for(asyncio.gather(*polls), timeout=30)
    assert [len(each) for each in leases] == [1, 1, 1]


async def test_while_the_database_is_away_nothing_is_asked_in_a_loop(
    running: Running, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = [poll(running.service, n) for n in range(20)]
    await settled(running, waiting=20)
    tries: list[object] = []
    connect = psycopg.AsyncConnection.connect.__func__  # type: ignore[attr-defined]

    async def counted(cls: type[psycopg.AsyncConnection[Any]], *args: Any, **more: Any) -> Any:
        tries.append(cls)
        return await connect(cls, *args, **more)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", classmethod(counted))
    began = time.monotonic()

    with switch.away():
        await await_for(lambda: time.monotonic() - began >= 3.0)

    # Five parts of the server, each with a pause that grows.
    assert len(tries) < 60
    await end(polls)


@pytest.mark.usefixtures("told_only")
async def test_who_waits_behind_a_long_transaction_still_gets_what_it_commits(
    running: Running, dsn: str
) -> None:
    """It began before anybody waited, so its enqueue cannot know that somebody does."""
    async with (
        wherry.App(dsn) as app,
        await psycopg.AsyncConnection.connect(dsn) as connection,
    ):
        task = await app.aenqueue("t", tx=connection)
        waiting = poll(running.service)
        await await_for(lambda: running.desk.waiting == 1)
        await await_for(lambda: running.desk.marked(("default",)))

        await connection.commit()

        [lease] = await asyncio.wait_for(waiting, timeout=30)
    assert lease.id == task.id


@pytest.mark.parametrize("seed", range(3))
async def test_no_task_of_an_abandoned_poll_waits_for_its_lease(
    running: Running, app: wherry.App, seed: int
) -> None:
    """Polls are given up at any moment; every lease lasts longer than the test."""
    dice = random.Random(seed)
    done: list[int] = []
    tasks = 300

    async def work(name: str) -> None:
        while len(done) < tasks:
            asked: dict[str, Any] = {"max_tasks": dice.randint(1, 4), "lease_for": 600}
            asked |= {"wait": dice.choice([0, 0.01, 1]), "queues": dice.choice([["q"], ["*"]])}
            polling = poll(running.service, worker=name, **asked)
            if dice.random() < 0.6:
                await asyncio.wait([polling], timeout=dice.random() * 0.01)
                polling.cancel()
            await asyncio.wait([polling])
            if polling.cancelled():
                continue
            for lease in polling.result():
                assert await app.acomplete(lease) == "done"
                done.append(lease.id)

    async def feed() -> None:
        for _ in range(tasks // 10):
            await app.aenqueue_many([{"type": "t", "queue": "q"}] * 10)
            await asyncio.sleep(dice.random() * 0.02)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(feed())
        for n in range(20):
            group.create_task(work(f"w{n}"))

    assert sorted(done) == sorted(set(done))
    page = await app.alist_tasks(limit=1000)
    assert {(task.state, task.attempts) for task in page.tasks} == {("succeeded", 1)}


@pytest.mark.usefixtures("told_only")
async def test_who_comes_back_while_a_long_transaction_is_open_is_not_taken_for_settled(
    running: Running, dsn: str
) -> None:
    async with (
        wherry.App(dsn) as app,
        await psycopg.AsyncConnection.connect(dsn) as connection,
    ):
        task = await app.aenqueue("t", tx=connection)
        gone = poll(running.service, 1)
        await await_for(lambda: running.desk.marked(("default",)))
        await end([gone])
        await await_for(lambda: not running.desk.marked(("default",)))

        back = poll(running.service, 2)
        await await_for(lambda: running.desk.marked(("default",)))
        assert not running.desk.hears(("default",))
        await connection.commit()

        [lease] = await asyncio.wait_for(back, timeout=30)
    assert lease.id == task.id
