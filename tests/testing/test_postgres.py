"""Tests of the databases that tests are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

import wherry
from wherry.testing import Clock


def test_a_test_gets_a_migrated_database(connect: Callable[..., psycopg.Connection[Any]]) -> None:
    found = connect().execute("select count(*) from wherry.tasks").fetchone()

    assert found == (0,)


async def test_an_app_works_in_both_forms(app: wherry.App) -> None:
    enqueued = await app.aenqueue("some.type", {"n": 1})

    task = await app.aget_task(enqueued.id)
    assert task is not None
    assert task.payload == {"n": 1}


def test_a_blocking_app_works(app: wherry.App) -> None:
    enqueued = app.enqueue("some.type", {"n": 1})

    assert app.get_task(enqueued.id) is not None


def test_the_clock_moves(clock: Clock) -> None:
    before = clock.now()

    after = clock.advance(minutes=6)

    assert 359 < (after - before).total_seconds() < 390
