"""Many plain tasks go to the database in parts, one call and one transaction as before."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

import wherry
from wherry.commands.base import Statement
from wherry.commands.parts import LEAST_TASKS, EnqueueInParts
from wherry.commands.tasks import DrawTaskIds
from wherry.domain.options import Options
from wherry.domain.specs import Alike, Specs
from wherry.errors import InvalidPayload
from wherry.transport.base import drive
from wherry.transport.bounded import ANSWER_SECONDS
from wherry.transport.prepared import Prepared

Connect = Callable[..., psycopg.Connection[Any]]
Call = dict[str, Any]
Store = Callable[[list[Any]], Awaitable[list[wherry.Enqueued]]]

N = 1100
LAST = N - 50
LIKE = Options().spec("t", "")
KILL = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
    " where application_name = 'wherry app' and datname = current_database()"
)


class Ahead(list[bytes]):
    """Every statement that is sent ahead; before the fourth something may be done, once."""

    act: Callable[[], object] | None = None

    def note(self, text: bytes) -> None:
        self.append(text)
        if len(self) == 4 and self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.fixture(params=["blocking", "awaited"])
def store(request: pytest.FixtureRequest, app: wherry.App) -> Store:
    async def blocking(calls: list[Any]) -> list[wherry.Enqueued]:
        return await asyncio.to_thread(app.enqueue_many, calls)

    async def awaited(calls: list[Any]) -> list[wherry.Enqueued]:
        return await app.aenqueue_many(calls)

    return blocking if request.param == "blocking" else awaited


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    sent = Ahead()
    real = Prepared.ahead

    def noting(self: Prepared, text: bytes, values: Any) -> Any:
        sent.note(text)
        return real(self, text, values)

    monkeypatch.setattr(Prepared, "ahead", noting)
    return sent


def numbered() -> Specs:
    return Specs(N, lambda start, stop: [Alike(LIKE, [f'{{"n":{n}}}' for n in range(start, stop)])])


def plain() -> list[Any]:
    return [{"type": "t", "payload": {"n": n}} for n in range(N)]


def stored(connect: Connect) -> dict[int, int]:
    rows = connect().execute("select id, (payload->>'n')::int from wherry.tasks").fetchall()
    return dict(rows)


async def test_each_answer_is_its_own_tasks(store: Store, connect: Connect, ahead: Ahead) -> None:
    for _ in range(2):
        answers = await store(plain())
        there = stored(connect)
        assert [there[answer.id] for answer in answers] == list(range(N))
        assert all(answer.created for answer in answers)

    [tokens] = connect().execute("select count(distinct token) from wherry.live").fetchall()
    assert len(ahead) == 10
    assert len(stored(connect)) == 2 * N
    # One number for a call, by which it would know its own tasks again.
    assert tokens == (2,)


async def test_one_that_is_refused_at_the_end_refuses_all(
    store: Store, connect: Connect, ahead: Ahead
) -> None:
    calls = plain()
    calls[LAST]["payload"] = {"n": {1, 2}}

    for _ in range(2):
        with pytest.raises(InvalidPayload) as refused:
            await store(calls)
        assert refused.value.index == LAST

    # An awaited call makes all of them first.
    assert len(ahead) == (8 if store.__name__ == "blocking" else 0)
    assert stored(connect) == {}
    assert len(await store(plain())) == N
    [[connections]] = (
        connect()
        .execute(
            "select count(*) from pg_stat_activity"
            " where application_name = 'wherry app' and datname = current_database()"
        )
        .fetchall()
    )
    assert connections == 1


def test_what_a_rollback_has_the_session_forget_is_not_asked_for(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be prepared anew, but the server's log would have an error first."""
    id_ = app.enqueue("t").id
    for _ in range(5):
        # Prepared by psycopg itself, which has all forgotten if it has any.
        app.get_task(id_)
    app.enqueue_many(plain())
    calls = plain()
    calls[LAST]["payload"] = {"n": {1, 2}}
    with pytest.raises(InvalidPayload):
        app.enqueue_many(calls)
    said: list[Any] = []
    monkeypatch.setattr(psycopg.errors, "error_from_result", lambda *told, **_: said.append(told))

    for _ in range(2):
        app.enqueue("t")
        app.enqueue_many(plain())

    assert said == []


@pytest.mark.parametrize("other", [{"key": "k"}, {"payload": {"n": LAST, "long": "x" * 3000}}])
async def test_one_that_is_not_plain_is_stored_with_the_others(
    store: Store, connect: Connect, other: Call
) -> None:
    calls = plain()
    calls[LAST] |= other

    answers = await store(calls)

    there = stored(connect)
    assert [there[answer.id] for answer in answers] == list(range(N))
    again = await store(calls)
    assert (again[LAST].id == answers[LAST].id) == ("key" in other)


async def test_what_the_database_refuses_in_one_part_is_stored_in_none(
    store: Store, app: wherry.App, connect: Connect
) -> None:
    """An id of the first part is taken, as after a restore: others are drawn."""
    [first] = await store([{"type": "t", "payload": {"n": -1}}])
    connect().execute("select setval('wherry.task_id', %s, false)", (first.id,))
    app._ids.forget()  # pyright: ignore[reportPrivateUsage]

    answers = await store(plain())

    there = stored(connect)
    assert len(there) == N + 1
    assert [there[answer.id] for answer in answers] == list(range(N))


async def test_a_connection_that_is_lost_on_the_way_costs_nothing(
    store: Store, connect: Connect, ahead: Ahead
) -> None:
    other = connect()
    killed: list[Any] = []
    ahead.act = lambda: killed.extend(other.execute(KILL).fetchall())

    answers = await store(plain())

    assert killed == [(True,)]
    assert len(ahead) >= 4
    there = stored(connect)
    assert len(there) == N
    assert [there[answer.id] for answer in answers] == list(range(N))
    # The App is asked for a result, which nobody makes here.
    with pytest.raises(TimeoutError):
        await answers[0].aresult(timeout=0.01)


@pytest.mark.parametrize("by", ["name", "task"])
async def test_what_is_changed_while_the_call_is_awaited_is_stored_as_it_was(
    app: wherry.App, connect: Connect, by: str
) -> None:
    @app.task(name="t")
    async def t(n: int) -> None: ...

    payloads = [{"n": n} for n in range(N)]
    if by == "name":
        storing = app.aenqueue_many([{"type": t.name, "payload": each} for each in payloads])
    else:
        storing = t.aenqueue_many(payloads)
    storing_task = asyncio.create_task(storing)
    await asyncio.sleep(0)
    for each in payloads:
        each["n"] = -1
    answers = await storing_task

    there = stored(connect)
    assert [there[answer.id] for answer in answers] == list(range(N))


async def test_a_call_that_is_canceled_on_the_way_stores_nothing(
    app: wherry.App, connect: Connect, ahead: Ahead
) -> None:
    for _ in range(3):
        task = asyncio.create_task(app.aenqueue_many(plain()))
        ahead.clear()
        ahead.act = task.cancel
        await asyncio.wait([task])
        assert ahead.act is None
        assert task.cancelled()

    assert stored(connect) == {}
    assert len(await app.aenqueue_many(plain())) == N


async def test_few_and_those_of_a_callers_transaction_go_as_one(
    store: Store, app: wherry.App, connect: Connect, ahead: Ahead
) -> None:
    assert len(await store(plain()[: LEAST_TASKS - 1])) == LEAST_TASKS - 1
    with connect(autocommit=False) as tx:
        assert len(await asyncio.to_thread(app.enqueue_many, plain(), tx=tx)) == N
    assert ahead == []
    assert len(stored(connect)) == N + LEAST_TASKS - 1


def test_whoever_cannot_send_ahead_fetches_one_by_one(app: wherry.App) -> None:
    command = EnqueueInParts(numbered(), tuple(range(N)), token=1)
    fetched: list[Statement] = []

    def fetch(statement: Statement) -> list[Any]:
        fetched.append(statement)
        return []

    assert [answer.id for answer in drive(command, fetch)] == list(range(N))
    assert [statement.only_text for statement in fetched] == 5 * [True]


def test_a_batch_whose_making_failed_cannot_be_taken_for_a_shorter_one() -> None:
    def making(start: int, stop: int) -> list[Alike]:
        if stop == N:
            raise InvalidPayload("$", "no")
        return [Alike(LIKE, ["{}"] * (stop - start))]

    specs = Specs(N, making)
    assert len(next(specs.parts())) == 1
    for _ in range(2):
        with pytest.raises(InvalidPayload):
            list(specs)


async def test_all_stand_in_their_order_behind_what_was_there_and_before_what_comes(
    store: Store, app: wherry.App, connect: Connect
) -> None:
    ids: list[int] = []
    for _ in range(2):
        ids.append((await app.aenqueue("t")).id)
        ids += [answer.id for answer in await store(plain())]
    ids += [answer.id for answer in await store(plain()[:3])]

    rows = connect().execute("select id, position from wherry.live order by position").fetchall()
    assert [id_ for id_, _ in rows] == ids
    assert len({position for _, position in rows}) == len(ids)


def test_ids_that_do_not_follow_one_another_name_their_tasks_all_the_same(
    app: wherry.App, connect: Connect
) -> None:
    drawn = app.carry(DrawTaskIds(N + 1))
    # Somebody else has one in the middle; the last part is in another order.
    ids = (*drawn[:300], *drawn[301:1050], *drawn[:1049:-1])

    answers = app.carry(EnqueueInParts(numbered(), ids, token=1))

    assert [answer.id for answer in answers] == list(ids)
    there = stored(connect)
    assert [there[id_] for id_ in ids] == list(range(N))


async def test_tasks_of_several_kinds_are_stored_as_what_they_are(
    store: Store, connect: Connect
) -> None:
    kinds: list[Call] = [{"type": "a"}, {"type": "b"}, {"type": "b", "priority": 1}]
    # Those of the first part are mixed, those of the others are not.
    calls = [{**kinds[n % 3 if n < 250 else n // 250 % 3], "payload": {"n": n}} for n in range(N)]

    # Less than a silence of the server has to last before the call is sent again.
    async with asyncio.timeout(ANSWER_SECONDS / 3):
        answers = await store(calls)

    rows = connect().execute("select id, type, priority, payload from wherry.tasks").fetchall()
    there = {id_: row for id_, *row in rows}
    assert [there[answer.id] for answer in answers] == [
        [call["type"], call.get("priority", 0), call["payload"]] for call in calls
    ]


async def test_a_row_that_can_be_read_like_a_dict_is_a_call(
    app: wherry.App, connect: Connect
) -> None:
    """Those of sqlite3 and asyncpg have keys, and are no Mapping."""

    @app.task(name="t")
    async def t(n: int) -> None: ...

    with closing(sqlite3.connect(":memory:")) as other:
        other.row_factory = sqlite3.Row
        rows = other.execute("select 0 as n union all select 1 order by n")
        answers = await t.aenqueue_many(rows)

    assert stored(connect) == {answers[0].id: 0, answers[1].id: 1}
