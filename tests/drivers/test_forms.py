"""Which form goes with which connection, and the ambient connection that nobody has to pass.

A blocking connection goes with the blocking form, an async one with the `a` form; the other way
round would stop the loop, or answer with a coroutine that nobody awaits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import psycopg
import pytest

import wherry
from tests.drivers.conftest import Stored
from tests.drivers.kinds import READ_COMMITTED, Kind

Connect = Callable[..., psycopg.Connection[Any]]

current: ContextVar[Any] = ContextVar("current", default=None)


class Traced:
    """Stands for a connection, as the proxies of tools that trace drivers do."""

    def __init__(self, traced: Any) -> None:
        self.traced = traced

    __class__: Any = property(lambda self: type(self.traced))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.traced, name)


def note(n: int) -> None:
    """The handler of the tests' own task type."""


async def test_the_wrong_form_is_refused_and_the_right_one_named(
    app: wherry.App, plain_caller: Kind, stored: Stored
) -> None:
    task = app.task(name="note")(note)
    await app.aenqueue("t")
    [lease] = await app.alease(worker="w")
    tx = plain_caller.tx
    name = rf"tx={type(tx).__module__}\.{type(tx).__name__}"

    if plain_caller.blocking:
        with pytest.raises(TypeError, match=rf"{name} blocks, .* use enqueue\(\.\.\.\)"):
            await app.aenqueue("t", tx=tx)
        with pytest.raises(TypeError, match=rf"{name} blocks, .* use enqueue\(\.\.\.\)"):
            await task.using(tx=tx).aenqueue_many([{"n": 1}])
        with pytest.raises(TypeError, match=rf"{name} blocks, .* use complete\(\.\.\.\)"):
            await app.acomplete(lease, tx=tx)
    else:
        with pytest.raises(TypeError, match=rf"{name} is awaited, .* `await aenqueue\(\.\.\.\)`"):
            app.enqueue("t", tx=tx)
        with pytest.raises(TypeError, match=rf"{name} is awaited, .* `await aenqueue\(\.\.\.\)`"):
            task.using(tx=tx).enqueue(1)
        with pytest.raises(TypeError, match=rf"{name} is awaited, .* `await acomplete\(\.\.\.\)`"):
            app.complete(lease, tx=tx)

    await plain_caller.begin()
    assert (await plain_caller.enqueue(app)).created
    await plain_caller.rollback()
    assert stored() == [lease.id]


async def test_a_blocking_call_without_a_connection_is_refused_in_a_loop(
    app: wherry.App, connect: Connect
) -> None:
    with pytest.raises(wherry.BlockingInLoop, match=r"use `await aenqueue\(\)`"):
        app.enqueue("t")

    assert app.enqueue("t", tx=connect()).created


async def test_a_task_type_carries_its_connection(
    app: wherry.App, plain_caller: Kind, stored: Stored
) -> None:
    task = app.task(name="note")(note)
    bound = task.using(tx=plain_caller.tx, key="k")
    await plain_caller.begin()

    if plain_caller.blocking:
        first = bound.enqueue(1)
        [second] = bound.enqueue_many([{"n": 2}])
    else:
        first = await bound.aenqueue(1)
        [second] = await bound.aenqueue_many([{"n": 2}])

    assert stored() == []
    await plain_caller.commit()
    assert second == wherry.Enqueued(first.id, False, False)
    assert stored() == [first.id]


async def test_the_ambient_connection_is_used_unless_opted_out(
    dsn: str, kind: type[Kind], stored: Stored
) -> None:
    async with wherry.App(dsn, tx=current.get) as app, kind.open(dsn, READ_COMMITTED) as caller:
        task = app.task(name="note")(note)
        await caller.begin()
        current.set(caller.tx)

        if caller.blocking:
            inside = [task.enqueue(1), app.enqueue("t"), *app.enqueue_many([{"type": "t"}])]
        else:
            inside = [await task.aenqueue(1), await app.aenqueue("t")]
            inside += await app.aenqueue_many([{"type": "t"}])
        outside = await app.aenqueue("t", tx=None)
        outside_too = await task.using(tx=None).aenqueue(2)

        assert stored() == sorted([outside.id, outside_too.id])
        await caller.rollback()
        assert len(stored()) == 2
        assert len(inside) == 3
        current.set(None)
        alone = await app.aenqueue("t")
        assert alone.id in stored()


async def test_a_proxy_of_a_connection_stands_for_it(
    app: wherry.App, plain_caller: Kind, stored: Stored
) -> None:
    proxy: Any = Traced(plain_caller.tx)
    await plain_caller.begin()

    if plain_caller.blocking:
        enqueued = app.enqueue("t", tx=proxy)
    else:
        enqueued = await app.aenqueue("t", tx=proxy)

    assert stored() == []
    await plain_caller.commit()
    assert stored() == [enqueued.id]


async def test_an_ambient_connection_of_the_wrong_form_is_refused(
    dsn: str, connect: Connect, stored: Stored
) -> None:
    """Not passed over: what is enqueued would not belong to the transaction."""
    tx = connect()
    async with wherry.App(dsn, tx=lambda: tx) as app:
        with pytest.raises(TypeError, match=r"psycopg\.Connection blocks"):
            await app.aenqueue("t")

    assert stored() == []


@pytest.mark.parametrize("tx", [object(), 1, "postgresql:///", psycopg, psycopg.Connection, ()])
async def test_what_is_no_connection_is_refused(app: wherry.App, tx: Any, stored: Stored) -> None:
    """TXN-02."""
    for refused in (app.aenqueue("t", tx=tx), app.aenqueue_many([{"type": "t"}], tx=tx)):
        with pytest.raises(TypeError, match="expected an open psycopg Connection, AsyncConn"):
            await refused
    with pytest.raises(TypeError, match=type(tx).__name__):
        app.enqueue("t", tx=tx)

    assert stored() == []
