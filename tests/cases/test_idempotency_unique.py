"""What made others store a task twice, or fail on a key, where a caller meant one task."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import wherry
from tests.cases.cutting import Cutting
from tests.pg.support import Session

Connect = Callable[..., psycopg.Connection[Any]]
CALLS = 25


@pytest.fixture
def cutting(dsn: str) -> Iterator[Cutting]:
    # A path that is short enough for a socket.
    with tempfile.TemporaryDirectory(prefix="wc-", dir="/tmp") as folder:
        made = Cutting(dsn, Path(folder), mark=b"cut me ")
        yield made
        made.close()


def payload(n: int) -> dict[str, Any]:
    return {"text": f"cut me {n:09}"}


@pytest.mark.parametrize("key", [None, "k"], ids=["without key", "with key"])
@pytest.mark.parametrize("form", ["blocking", "awaited"])
async def test_an_enqueue_whose_answer_was_lost_after_its_commit_is_one_task(
    cutting: Cutting, connect: Connect, form: str, key: str | None
) -> None:
    """IDM-12: the ids are drawn by the caller ahead, and sent again with what was lost."""
    answers: list[wherry.Enqueued] = []

    def blocking() -> None:
        with wherry.App(cutting.dsn) as app:
            answers.extend(
                app.enqueue("t", payload(n), key=key and f"{key}{n}") for n in range(CALLS)
            )

    if form == "blocking":
        await asyncio.to_thread(blocking)
    else:
        async with wherry.App(cutting.dsn) as app:
            answers.extend(
                [await app.aenqueue("t", payload(n), key=key and f"{key}{n}") for n in range(CALLS)]
            )

    stored = connect().execute("select id from wherry.live order by id").fetchall()
    assert cutting.cuts == CALLS
    assert [(answer.id,) for answer in answers] == stored
    assert {answer.created for answer in answers} == {True}


@pytest.mark.parametrize("key", [None, "k"], ids=["without key", "with key"])
@pytest.mark.parametrize("has_ended", [False, True], ids=["theirs waits", "theirs has ended"])
@pytest.mark.parametrize("form", ["blocking", "awaited"])
async def test_an_enqueue_lost_in_a_failover_is_stored_beside_what_others_drew_meanwhile(
    dsn: str, connect: Connect, form: str, has_ended: bool, key: str | None
) -> None:
    """What was committed last is gone, its id is drawn again, and only then it is sent again."""
    session = Session(dsn)

    def fail_over() -> None:
        [(lost,)] = session.rows("delete from wherry.live returning id")
        session.rows("delete from wherry.key")
        session.rows("select setval('wherry.task_id', %s, false)", lost)
        session.enqueue("theirs")
        if has_ended:
            session.complete(session.lease_one())

    with tempfile.TemporaryDirectory(prefix="wc-", dir="/tmp") as folder:
        cutting = Cutting(dsn, Path(folder), mark=b"cut me ", meanwhile=fail_over)
        if form == "blocking":
            with wherry.App(cutting.dsn) as app:
                answer = await asyncio.to_thread(app.enqueue, "ours", payload(1), key=key)
        else:
            async with wherry.App(cutting.dsn) as app:
                answer = await app.aenqueue("ours", payload(1), key=key)
        cutting.close()
    session.close()

    stored = dict(connect().execute("select type, id from wherry.tasks").fetchall())
    assert cutting.cuts == 1
    assert answer.created
    assert stored["ours"] == answer.id != stored["theirs"]


def test_the_longest_keys_fit_their_index_though_nothing_shortens_them(dsn: str) -> None:
    """IDM-06: random ones, which PostgreSQL cannot compress, with the longest queue names."""
    letters = random.Random(6)
    session = Session(dsn)

    def text(n: int) -> str:
        return "".join(chr(letters.randrange(0x10000, 0x10FFFF)) for _ in range(n))

    for _ in range(20):
        queue, key = text(63) + "abc", text(128)
        first = session.enqueued(queue=queue, key=key)
        assert first.created
        assert session.enqueued(queue=queue, key=key).id == first.id
    session.close()
