"""An App at the top of a module, and tests that each have a database of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

import wherry
from wherry.testing import Manual, TemplateServer, manual

shop = wherry.App("host=nowhere.invalid")


@shop.task(name="shop.note")
def note(n: int) -> None: ...


@pytest.fixture
def tasks(wherry_dsn: str) -> Iterator[Manual]:
    with manual(shop, wherry_dsn) as tasks:
        yield tasks


@pytest.fixture
async def atasks(wherry_dsn: str) -> AsyncIterator[Manual]:
    async with manual(shop, wherry_dsn) as tasks:
        yield tasks


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_finds_its_own_tasks_only(tasks: Manual, turn: int) -> None:
    note.enqueue(n=turn)

    assert [each.payload for each in tasks.drain()] == [{"n": turn}]


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_with_a_loop_does_too(atasks: Manual, turn: int) -> None:
    await note.aenqueue(n=turn)
    note_in_thread = await atasks.aexpect_enqueued(note, {"n": turn}, count=1)

    assert [each.id for each in await atasks.adrain()] == [note_in_thread[0].id]


def test_ids_drawn_in_one_database_are_not_used_in_the_next(wherry_server: TemplateServer) -> None:
    # An enqueue draws a block of ids ahead. In a fresh database the same numbers come again, and a
    # task with an id that is taken is not stored.
    with wherry_server.database() as first, manual(shop, first):
        note.enqueue(n=1)

    with wherry_server.database() as second, manual(shop, second) as tasks:
        with wherry.App(second) as other:
            for n in range(20):
                other.enqueue("shop.note", {"n": n})
        for n in range(20, 40):
            note.enqueue(n=n)
        ran = tasks.drain()

    assert sorted(each.payload["n"] for each in ran) == list(range(40))


def test_the_app_is_where_it_was_afterwards(wherry_dsn: str) -> None:
    with manual(shop, wherry_dsn):
        assert shop.dsn == wherry_dsn

    assert shop.dsn == "host=nowhere.invalid"


async def test_connections_that_a_loop_still_uses_are_not_left_behind(wherry_dsn: str) -> None:
    async with manual(shop, wherry_dsn):
        await note.aenqueue(n=1)
        with pytest.raises(wherry.ConfigError, match="aclose"):
            shop.move(None)
