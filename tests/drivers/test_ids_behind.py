"""A sequence of ids that is behind its tasks, as after a restore without it, by every door."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import wherry
from tests.drivers.conftest import Stored
from tests.drivers.kinds import Kind
from wherry.commands.maintenance import CatchUpIds

TASKS = 30


@pytest.fixture
def behind(app: wherry.App, observer: psycopg.Connection[Any]) -> list[int]:
    """The ids of the tasks that the sequence is behind of."""
    answers = app.enqueue_many([{"type": "t"}] * TASKS)
    observer.execute("select setval('wherry.task_id', 1)")
    return [answer.id for answer in answers]


@pytest.mark.parametrize("key", [None, "k"])
async def test_in_a_callers_transaction_it_is_said_once_and_then_goes_through(
    app: wherry.App, behind: list[int], plain_caller: Kind, stored: Stored, key: str | None
) -> None:
    await plain_caller.begin()
    with pytest.raises(wherry.IdTaken, match="begin it again") as refused:
        await plain_caller.enqueue(app, key=key)
    await plain_caller.rollback()

    await plain_caller.begin()
    answer = await plain_caller.enqueue(app, key=key)
    await plain_caller.commit()

    assert refused.value.moved
    assert answer.created
    assert stored() == [*behind, answer.id]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("form", ["blocking", "awaited"])
async def test_without_a_transaction_it_goes_through_at_once(
    dsn: str, behind: list[int], stored: Stored, form: str, key: str | None
) -> None:
    async with wherry.App(dsn) as app:
        if form == "blocking":
            answer = await asyncio.to_thread(app.enqueue, "t", key=key)
        else:
            answer = await app.aenqueue("t", key=key)
        many = await app.aenqueue_many([{"type": "t"}] * 3)

    assert stored() == [*behind, answer.id, *(each.id for each in many)]


async def test_who_cannot_move_the_ids_on_is_told_what_to_run(
    app: wherry.App, dsn: str, behind: list[int], plain_caller: Kind, stored: Stored
) -> None:
    """An App that has no other way to the database than the caller's connection."""
    elsewhere = wherry.App("host=127.0.0.1 port=1 dbname=none connect_timeout=1", pool_timeout=0.5)

    await plain_caller.begin()
    with pytest.raises(wherry.IdTaken, match=r"select wherry\.catch_up_ids\(\)") as refused:
        await plain_caller.enqueue(elsewhere)
    await plain_caller.rollback()
    assert not refused.value.moved
    assert await app.acarry(CatchUpIds()) is not None
    await plain_caller.begin()
    answer = await plain_caller.enqueue(elsewhere)
    await plain_caller.commit()

    assert stored() == [*behind, answer.id]
