"""Keys in inline mode: within one block they do what they do in the database."""

from __future__ import annotations

import pytest

import wherry
from wherry.testing import inline


@pytest.fixture
def app() -> wherry.App:
    return wherry.App()


def test_a_key_runs_once(app: wherry.App) -> None:
    ran: list[int] = []

    @app.task(name="note")
    def note(n: int) -> None:
        ran.append(n)

    with inline(app):
        first = note.using(key="k").enqueue(n=1)
        same = note.using(key="k").enqueue(n=1)
        other = note.using(key="k").enqueue(n=2)

    assert ran == [1]
    assert (first.created, first.payload_matches) == (True, True)
    assert (same.id, same.created, same.payload_matches) == (first.id, False, True)
    assert (other.id, other.created, other.payload_matches) == (first.id, False, False)


def test_the_order_of_names_in_a_payload_does_not_matter(app: wherry.App) -> None:
    with inline(app, elsewhere=["note"]):
        app.enqueue("note", {"a": 1, "b": [{"c": 1, "d": 2}]}, key="k")
        again = app.enqueue("note", {"b": [{"d": 2, "c": 1}], "a": 1}, key="k")

    assert again.payload_matches


def test_a_key_is_one_of_its_queue(app: wherry.App) -> None:
    with inline(app, elsewhere=["note"]):
        first = app.enqueue("note", {}, key="k")
        second = app.enqueue("note", {}, key="k", queue="other")

    assert (first.created, second.created) == (True, True)
    assert first.id != second.id


def test_a_key_twice_in_a_batch_is_one_task(app: wherry.App) -> None:
    with inline(app, elsewhere=["note"]) as tasks:
        answers = app.enqueue_many([{"type": "note", "key": "k"}, {"type": "note", "key": "k"}])

    assert [answer.created for answer in answers] == [True, False]
    assert len(tasks.tasks) == 1


def test_a_key_whose_handler_failed_is_still_taken(app: wherry.App) -> None:
    # As in the database, where the failed task waits for its retry.
    @app.task(name="fail")
    def fail() -> None:
        raise ConnectionError

    with inline(app):
        with pytest.raises(ConnectionError):
            fail.using(key="k").enqueue()
        again = fail.using(key="k").enqueue()

    assert not again.created


def test_a_handler_that_enqueues_its_own_key_is_not_run_again(app: wherry.App) -> None:
    ran: list[bool] = []

    @app.task(name="self")
    def again() -> None:
        ran.append(again.using(key="k").enqueue().created)

    with inline(app):
        again.using(key="k").enqueue()

    assert ran == [False]


def test_a_key_may_be_used_again_when_its_time_is_over(app: wherry.App) -> None:
    @app.task(name="note")
    def note() -> None: ...

    with inline(app):
        first = note.using(key="k", key_ttl=0).enqueue()
        second = note.using(key="k", key_ttl=60).enqueue()
        third = note.using(key="k").enqueue()

    assert second.created
    assert second.id != first.id
    assert (third.id, third.created) == (second.id, False)


def test_another_block_knows_nothing_of_the_keys_before(app: wherry.App) -> None:
    with inline(app, elsewhere=["note"]):
        app.enqueue("note", {}, key="k")

    with inline(app, elsewhere=["note"]):
        assert app.enqueue("note", {}, key="k").created
