"""Handlers called directly, with a context that stores nothing."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

import wherry
from wherry.testing import context


def test_current_works_inside_the_block_only() -> None:
    with context(task_id=7, attempt=3, headers={"trace": "t"}) as ctx:
        assert wherry.current() is ctx
        assert (ctx.task_id, ctx.attempt, ctx.headers) == (7, 3, {"trace": "t"})
        assert not ctx.cancelled

    with pytest.raises(LookupError):
        wherry.current()


def test_blocks_may_be_inside_one_another() -> None:
    with context(task_id=1):
        with context(task_id=2):
            assert wherry.current().task_id == 2
        assert wherry.current().task_id == 1


def test_a_handler_learns_that_it_should_stop() -> None:
    def handler() -> str:
        return "stopped" if wherry.current().cancelled else "done"

    with context(cancelled=True):
        first = handler()
    with context() as ctx:
        second = handler()
        ctx.cancel()
        third = handler()

    assert [first, second, third] == ["stopped", "done", "stopped"]


def test_a_completion_is_put_down() -> None:
    with context() as ctx:
        assert not ctx.completed
        wherry.current().complete(tx=MagicMock(), result={"n": [1]})

    assert ctx.completed
    assert ctx.result == {"n": [1]}


async def test_an_awaited_completion_is_put_down() -> None:
    with context() as ctx:
        await wherry.current().acomplete(tx=MagicMock())

    assert ctx.completed
    assert ctx.result is None


def test_a_lost_lease_is_raised_at_the_completion() -> None:
    with context() as ctx:
        ctx.lose()

        assert ctx.cancelled
        with pytest.raises(wherry.LeaseLost):
            ctx.complete(tx=MagicMock())
    assert not ctx.completed


def test_a_second_completion_is_refused_as_in_the_database() -> None:
    with context() as ctx:
        ctx.complete(tx=MagicMock(), result=1)
        with pytest.raises(wherry.LeaseLost):
            ctx.complete(tx=MagicMock(), result=2)

    assert ctx.result == 1


def test_a_completion_needs_a_connection_and_json() -> None:
    with context() as ctx:
        with pytest.raises(TypeError, match="expected an open psycopg Connection"):
            ctx.complete(tx="conn")
        with pytest.raises(wherry.InvalidPayload):
            ctx.complete(tx=MagicMock(), result=object())


async def test_what_the_handler_enqueues_is_put_down() -> None:
    with context() as ctx:
        wherry.current().enqueue("mail", {"to": "a"}, key="k", delay=5)
        await wherry.current().aenqueue("mail", {"to": "b"}, tx=MagicMock())

    assert [(task.id, task.payload, task.key) for task in ctx.enqueued] == [
        (1, {"to": "a"}, "k"),
        (2, {"to": "b"}, None),
    ]


@pytest.mark.parametrize(
    "options", [{"prority": 1}, {"priority": 1_000}, {"queue": ""}, {"delay": -1}]
)
def test_what_the_handler_enqueues_is_checked(options: dict[str, Any]) -> None:
    with context() as ctx, pytest.raises(wherry.InvalidOption):
        ctx.enqueue("mail", {}, **options)


def test_the_values_of_the_context_are_checked() -> None:
    with pytest.raises(wherry.InvalidOption, match="queue"), context(queue=""):
        pass
