"""What made others change, lose or choke on a payload, a result or an error text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.worker.support import drained, get
from wherry.domain.state import State

Connect = Callable[..., psycopg.Connection[Any]]
MIB = 1024 * 1024


class MyError(Exception):
    def __init__(self, obj: object) -> None:
        super().__init__()
        self.obj = obj


def in_a_circle() -> ValueError:
    one, other = ValueError("one"), MyError(object())
    one.__cause__, other.__cause__ = other, one
    return one


async def test_numbers_and_the_order_of_keys_are_the_same_in_the_handler_and_in_the_result(
    app: wherry.App, connect: Connect
) -> None:
    """PAY-06, PAY-16."""
    value = {"id": 9007199254740993, "n": 10**30, "f": 0.1, "d": 1.10, "b": {"z": 1, "a": 2}}
    seen: list[Any] = []

    @app.task(name="returns", store_result=True)
    async def returns(given: dict[str, Any]) -> Any:
        seen.append(given)
        return given

    id_ = (await app.aenqueue("returns", {"given": value})).id
    await drained(app)

    task = await get(app, id_)
    text = (
        '{"id":9007199254740993,"n":1000000000000000000000000000000,'
        '"f":0.1,"d":1.1,"b":{"z":1,"a":2}}'
    )
    for back in (seen[0], task.result):
        assert back == value
        assert [type(each) for each in back.values()] == [int, int, float, float, dict]
        assert [*back, *back["b"]] == ["id", "n", "f", "d", "b", "z", "a"]
    assert connect().execute(
        "select payload::text, result::text from wherry.finished"
    ).fetchall() == [('{"given":' + text + "}", text)]


@pytest.mark.parametrize(
    "payload",
    ['{"a": "x\\u0000y"}', '{"a\\u0000": 1}', '{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1'],
    ids=["NUL", "NUL in a key", "lone surrogate", "NaN", "unfinished"],
)
def test_plain_sql_stores_nothing_of_what_is_no_json(connect: Connect, payload: str) -> None:
    """PAY-03, PAY-04, PAY-05: PostgreSQL refuses it before our function sees it, for good."""
    connection = connect()

    with pytest.raises(psycopg.DataError):
        connection.execute(
            "select * from wherry.enqueue('default', 't', %s::text::jsonb)", [payload]
        )

    assert connection.execute("select count(*) from wherry.live").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "result",
    ["\ud800", {"\udc00x": 1}, b"\xff".decode(errors="surrogateescape"), [float("inf")]],
    ids=ascii,
)
async def test_a_result_that_cannot_be_stored_fails_its_task_and_no_mate(
    app: wherry.App, result: Any
) -> None:
    """PAY-04, PAY-05: once, for another attempt would give the same; the mates are reported."""

    @app.task(name="returns", store_result=True, max_attempts=5)
    async def returns(n: int) -> Any:
        return result if n == 5 else n

    ids = [each.id for each in await returns.aenqueue_many([{"n": n} for n in range(10)])]
    await drained(app, concurrency=10)

    tasks = [await get(app, id_) for id_ in ids]
    bad = tasks.pop(5)
    assert (bad.state, bad.attempts) == (State.FAILED, 1)
    assert (bad.reason, len(bad.history)) == ("its result is not JSON", 1)
    assert [(task.state, task.result) for task in tasks] == [
        (State.SUCCEEDED, n) for n in range(10) if n != 5
    ]


async def test_what_is_too_large_is_refused_with_size_and_limit_and_not_tried_again(
    app: wherry.App, connect: Connect
) -> None:
    """PAY-09: one limit for payloads and results, checked before anything is sent."""

    @app.task(name="large", store_result=True, max_attempts=5)
    async def large(mib: float) -> str:
        return "x" * int(mib * MIB)

    for mib in (1, 3.9, 4.1, 16, 64):
        with pytest.raises(wherry.InvalidPayload, match="bytes; the limit is 1,048,576 bytes"):
            await app.aenqueue("large", {"x": "x" * int(mib * MIB)})
    ids = [(await app.aenqueue("large", {"mib": mib})).id for mib in (1, 3.9, 4.1, 16)]
    await drained(app, concurrency=1)

    for id_ in ids:
        task = await get(app, id_)
        assert (task.state, task.attempts) == (State.FAILED, 1)
        assert "bytes; the limit is 1,048,576 bytes" in (task.history[0].message or "")
    assert connect().execute("select count(*) from wherry.finished").fetchall() == [(4,)]


async def test_a_huge_error_is_cut_and_can_be_searched_for(
    app: wherry.App, connect: Connect
) -> None:
    """PAY-11: its head, its tail, and how much there was; PostgreSQL has no limit near to that."""

    @app.task(name="raises", max_attempts=1)
    async def raises() -> None:
        raise ValueError(" ".join(f"word{n}" for n in range(1_000_000)))

    id_ = (await app.aenqueue("raises")).id
    await drained(app)

    for part in ("valueerror", "word0 word1 ", "word999998 word999999", "cut here"):
        assert [task.id for task in (await app.alist_tasks(error=part)).tasks] == [id_]
    assert (await app.alist_tasks(error="word500000")).tasks == ()
    lengths = connect().execute(
        "select octet_length(message), octet_length(traceback) from wherry.attempt"
    )
    [(message, traceback)] = lengths.fetchall()
    assert message <= 8 * 1024
    assert traceback <= 32 * 1024


@pytest.mark.parametrize(
    ("make", "type_name", "words"),
    [
        (lambda: MyError(object()), f"{__name__}.MyError", ["MyError"]),
        (
            lambda: ExceptionGroup("three", [MyError({1}), KeyError("b"), ValueError("c")]),
            "ExceptionGroup",
            ["MyError", "KeyError", "ValueError: c", "three"],
        ),
        (in_a_circle, "ValueError", ["ValueError: one", "MyError"]),
    ],
    ids=["an argument that is no JSON", "a group of three", "causes in a circle"],
)
async def test_an_error_keeps_its_own_type_and_the_line_that_raised_it(
    app: wherry.App, make: Callable[[], Exception], type_name: str, words: list[str]
) -> None:
    """PAY-15: it is stored as text, so nothing of it has to be JSON."""

    @app.task(name="raises", max_attempts=1)
    async def raises() -> None:
        raise make()  # this very line

    id_ = (await app.aenqueue("raises")).id
    await drained(app)

    task = await get(app, id_)
    [attempt] = task.history
    assert (task.state, attempt.error_type) == (State.DEAD, type_name)
    assert "raise make()  # this very line" in (attempt.traceback or "")
    for word in words:
        assert word in (attempt.traceback or "")
