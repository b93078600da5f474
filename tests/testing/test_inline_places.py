"""Where inline mode runs a handler: which thread, which loop, and what it takes as `tx=`."""

from __future__ import annotations

import asyncio
import threading
from unittest.mock import MagicMock

import psycopg
import pytest

import wherry
from wherry.testing import inline


@pytest.fixture
def app() -> wherry.App:
    return wherry.App()


async def test_an_awaited_enqueue_runs_an_async_handler_in_the_same_loop(app: wherry.App) -> None:
    seen: list[asyncio.AbstractEventLoop] = []

    @app.task(name="look", store_result=True)
    async def look() -> str:
        await asyncio.sleep(0)
        seen.append(asyncio.get_running_loop())
        return "seen"

    with inline(app):
        enqueued = await look.aenqueue()

        assert await enqueued.aresult(timeout=1) == "seen"
    assert seen == [asyncio.get_running_loop()]


def test_a_blocking_enqueue_runs_an_async_handler_in_a_fresh_loop(app: wherry.App) -> None:
    @app.task(name="look", store_result=True)
    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    with inline(app):
        assert look.enqueue().result(timeout=1) == "seen"


async def test_an_awaited_enqueue_runs_a_plain_handler_in_a_thread(app: wherry.App) -> None:
    inner_ids: list[int] = []

    @app.task(name="inner")
    def inner() -> None:
        inner_ids.append(threading.get_ident())

    @app.task(name="outer")
    def outer() -> None:
        # Blocks, which is fine in a worker's thread and so must be here.
        inner.enqueue()

    with inline(app):
        await outer.aenqueue()

    assert len(inner_ids) == 1
    assert inner_ids != [threading.get_ident()]


async def test_a_blocking_enqueue_in_a_loop_is_refused_as_ever(app: wherry.App) -> None:
    @app.task(name="look")
    async def look() -> None: ...

    with inline(app), pytest.raises(wherry.BlockingInLoop, match="aenqueue"):
        look.enqueue()


async def test_a_blocking_tx_is_allowed_in_a_loop(app: wherry.App) -> None:
    # As in SQLAlchemy's run_sync.
    @app.task(name="aone", store_result=True)
    async def aone() -> int:
        await asyncio.sleep(0)
        return 1

    @app.task(name="two", store_result=True)
    def two() -> int:
        return int(aone.enqueue().result(timeout=1)) + 1

    with inline(app):
        answers = [
            aone.using(tx=MagicMock()).enqueue().result(timeout=1),
            two.using(tx=MagicMock()).enqueue().result(timeout=1),
        ]

    assert answers == [1, 2]


def test_a_tx_that_is_no_connection_is_refused(app: wherry.App) -> None:
    @app.task(name="note")
    def note() -> None: ...

    with inline(app), pytest.raises(TypeError, match="expected an open psycopg Connection"):
        note.using(tx="postgresql://").enqueue()


async def test_a_tx_of_the_other_kind_is_refused(app: wherry.App, wherry_dsn: str) -> None:
    @app.task(name="note")
    async def note() -> None: ...

    with inline(app), psycopg.connect(wherry_dsn) as blocking:
        with pytest.raises(TypeError, match="blocks"):
            await note.using(tx=blocking).aenqueue()
        async with await psycopg.AsyncConnection.connect(wherry_dsn) as awaited:
            with pytest.raises(TypeError, match="awaited"):
                note.using(tx=awaited).enqueue()


def test_the_ambient_connection_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = MagicMock()
    app = wherry.App(tx=asked)

    @app.task(name="note")
    def note() -> None: ...

    with inline(app):
        note.enqueue()
        note.using(tx=None).enqueue()

    asked.assert_called_once_with()
