"""Assertions about what was enqueued, and what they say when they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import psycopg
import pytest

import wherry
from wherry.testing import aexpect_enqueued, expect_enqueued, inline, manual

Connect = Callable[..., psycopg.Connection[Any]]


def test_tasks_are_found_by_a_part_of_their_payload(app: wherry.App) -> None:
    app.enqueue("mail", {"to": "a@example.com", "order": {"id": 1, "lines": [{"n": 1}]}})
    app.enqueue("mail", {"to": "b@example.com", "order": {"id": 2, "lines": [{"n": 2}, {"n": 3}]}})

    [first] = expect_enqueued(app, "mail", {"order": {"id": 1}}, count=1)
    [second] = expect_enqueued(app, "mail", {"to": ANY, "order": {"lines": [{}, {"n": 3}]}})

    assert (first.payload["to"], second.payload["to"]) == ("a@example.com", "b@example.com")
    assert len(expect_enqueued(app, "mail", count=2)) == 2
    assert expect_enqueued(app, "mail", {"to": "c@example.com"}, count=0) == []


def test_a_task_type_stands_for_its_name(app: wherry.App) -> None:
    @app.task(name="mail")
    def mail(to: str) -> None: ...

    enqueued = mail.enqueue(to="a")

    assert [task.id for task in expect_enqueued(app, mail, {"to": "a"})] == [enqueued.id]


def test_tasks_are_told_apart_by_their_options(app: wherry.App) -> None:
    app.enqueue("mail", {}, queue="fast", key="k", priority=3, tags=["a", "b"])
    app.enqueue("mail", {})

    [found] = expect_enqueued(
        app, "mail", queue="fast", key="k", priority=3, tags=["b"], state="queued", count=1
    )

    assert found.key == "k"


def test_finished_tasks_count(app: wherry.App) -> None:
    @app.task(name="note")
    def note() -> None: ...

    note.enqueue()
    tasks = manual(app)
    tasks.drain()

    assert tasks.expect_enqueued(note, state="succeeded", count=1)


async def test_in_a_loop_it_is_awaited(app: wherry.App) -> None:
    await app.aenqueue("mail", {"to": "a"})

    assert await aexpect_enqueued(app, "mail", {"to": "a"}, count=1)
    with pytest.raises(wherry.BlockingInLoop, match="aexpect_enqueued"):
        expect_enqueued(app, "mail")


def test_an_open_transaction_is_looked_into_when_asked(app: wherry.App, connect: Connect) -> None:
    with connect() as connection, connection.transaction(force_rollback=True):
        app.enqueue("mail", {"to": "a"}, tx=connection)

        assert expect_enqueued(app, "mail", count=1, tx=connection)
        assert expect_enqueued(app, "mail", count=0) == []


def test_a_failure_shows_what_is_there_and_why_it_does_not_do(app: wherry.App) -> None:
    app.enqueue("mail", {"n": 1, "to": "b"}, queue="slow")
    app.enqueue("mail", {"n": 1}, key="k")
    app.enqueue("bill", {"cents": 5})

    with pytest.raises(AssertionError) as failed:
        expect_enqueued(app, "mail", {"to": "a"}, queue="default", count=1)

    first, second, third = [task.id for task in reversed(app.list_tasks().tasks)]
    wrong = 'payload.to is "b"'
    assert str(failed.value).splitlines() == [
        'expected 1 task mail queue="default" payload={"to": "a"}, found none',
        "of type mail:",
        f'  #{first} mail queue="slow" queued {{"n":1,"to":"b"}}  <- queue is "slow"; {wrong}',
        f'  #{second} mail queue="default" key="k" queued {{"n":1}}  <- payload.to is not there',
        "of other types:",
        f'  #{third} bill queue="default" queued {{"cents":5}}',
    ]


def test_a_failure_with_too_many_tells_how_many(app: wherry.App) -> None:
    for _ in range(30):
        app.enqueue("mail", {})

    with pytest.raises(AssertionError) as failed:
        expect_enqueued(app, "mail", count=0)

    lines = str(failed.value).splitlines()
    assert lines[0] == "expected no tasks mail, found 30"
    assert lines[-1] == "  … and 10 more"


def test_a_failure_says_when_there_is_nothing(app: wherry.App) -> None:
    with pytest.raises(AssertionError, match="there are no tasks at all"):
        expect_enqueued(app, "mail")


def test_more_tasks_than_a_page_holds_are_all_seen(app: wherry.App) -> None:
    app.enqueue_many([{"type": "mail", "payload": {"n": n}} for n in range(1_001)])

    found = expect_enqueued(app, "mail", count=1_001)

    assert [found[0].payload, found[-1].payload] == [{"n": 0}, {"n": 1_000}]


def test_inline_blocks_answer_alike() -> None:
    app = wherry.App()

    @app.task(name="mail")
    def mail(to: str) -> None: ...

    with inline(app) as tasks:
        mail.using(key="k").enqueue(to="a")

    assert tasks.expect_enqueued(mail, {"to": "a"}, key="k", state="succeeded", count=1)
    with pytest.raises(AssertionError, match='payload.to is "a"'):
        tasks.expect_enqueued(mail, {"to": "b"})
