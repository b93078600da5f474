"""Inline mode: enqueuing runs the handler at once, and no database is there."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

import wherry
from wherry.testing import inline


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> wherry.App:
    """An App that has no database to go to."""
    monkeypatch.delenv("WHERRY_DSN", raising=False)
    return wherry.App()


def test_a_plain_handler_runs_where_it_is_enqueued(app: wherry.App) -> None:
    @app.task(name="add", store_result=True)
    def add(a: int, b: int) -> int:
        return a + b

    with inline(app):
        enqueued = add.enqueue(1, b=2)

    assert enqueued.created
    assert enqueued.payload_matches is None


def test_the_result_is_there_when_enqueue_returns(app: wherry.App) -> None:
    @app.task(name="add", store_result=True)
    def add(a: int, b: int) -> int:
        return a + b

    with inline(app):
        enqueued = add.enqueue(1, b=2)

        assert enqueued.result(timeout=1) == 3
        assert app.result(enqueued.id, timeout=1) == 3


def test_what_a_handler_raises_comes_out_of_the_enqueue(app: wherry.App) -> None:
    @app.task(name="divide")
    def divide(by: int) -> float:
        return 1 / by

    with inline(app) as tasks, pytest.raises(ZeroDivisionError) as caught:
        divide.enqueue(by=0)

    assert caught.traceback[-1].name == "divide"
    assert tasks.tasks[0].error == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("signal", "state"),
    [
        (wherry.Fail("no such address"), "failed"),
        (wherry.Retry("busy", after=5), "queued"),
        (wherry.Snooze(60), "queued"),
        (wherry.Cancel("not wanted"), "canceled"),
    ],
)
def test_signals_come_out_as_they_are(app: wherry.App, signal: wherry.Outcome, state: str) -> None:
    @app.task(name="signal")
    def handler() -> None:
        raise signal

    with inline(app) as tasks, pytest.raises(type(signal)) as caught:
        handler.enqueue()

    assert caught.value is signal
    assert tasks.tasks[0].state == state


def test_the_last_attempt_that_fails_leaves_a_dead_task(app: wherry.App) -> None:
    @app.task(name="once", max_attempts=1)
    def once() -> None:
        raise OSError("gone")

    with inline(app) as tasks:
        with pytest.raises(OSError, match="gone"):
            once.enqueue()
        with pytest.raises(wherry.TaskDead, match="OSError: gone"):
            app.result(tasks.tasks[0].id, timeout=1)


def test_the_handler_gets_what_json_makes_of_the_payload(app: wherry.App) -> None:
    got: list[Any] = []

    @app.task(name="keep")
    def keep(things: list[int]) -> None:
        things.append(4)
        got.append(things)

    given = [1, 2, 3]
    with inline(app) as tasks:
        keep.enqueue(things=given)

    assert got == [[1, 2, 3, 4]]
    assert given == [1, 2, 3]
    assert tasks.tasks[0].payload == {"things": [1, 2, 3]}


def test_a_payload_that_is_no_json_is_refused_before_anything_runs(app: wherry.App) -> None:
    ran: list[object] = []

    @app.task(name="keep")
    def keep(thing: object) -> None:
        ran.append(thing)

    with inline(app), pytest.raises(wherry.InvalidPayload, match=r"\$\.thing"):
        keep.enqueue(thing=object())

    assert ran == []


def test_options_are_checked(app: wherry.App) -> None:
    @app.task(name="keep")
    def keep() -> None: ...

    with inline(app):
        with pytest.raises(wherry.InvalidOption, match="priority"):
            keep.using(priority=1_000).enqueue()
        with pytest.raises(wherry.InvalidOption, match="prority"):
            app.enqueue("keep", {}, prority=1)  # type: ignore[call-arg]


def test_arguments_must_fit_the_handler(app: wherry.App) -> None:
    @app.task(name="keep")
    def keep(thing: int) -> None: ...

    with inline(app):
        with pytest.raises(wherry.HandlerError, match="lacks thing"):
            app.enqueue("keep", {})
        with pytest.raises(wherry.HandlerError, match="does not take other"):
            app.enqueue("keep", {"thing": 1, "other": 2})


def test_a_type_is_run_by_name_too(app: wherry.App) -> None:
    @app.task(name="add", store_result=True)
    def add(a: int, b: int = 5) -> int:
        return a + b

    with inline(app):
        assert app.enqueue("add", {"a": 1}).result(timeout=1) == 6


def test_an_unknown_type_is_an_error_unless_it_runs_elsewhere(app: wherry.App) -> None:
    with inline(app), pytest.raises(wherry.UnknownType, match="billing"):
        app.enqueue("billing.charge", {})

    with inline(app, elsewhere=["billing.charge"]) as tasks:
        enqueued = app.enqueue("billing.charge", {"cents": 5})

        assert app.get_task(enqueued.id) == tasks.tasks[0]
    assert tasks.tasks[0].state == "queued"


def test_a_batch_is_checked_whole_before_it_runs(app: wherry.App) -> None:
    ran: list[int] = []

    @app.task(name="note")
    def note(n: int) -> None:
        ran.append(n)

    with inline(app):
        with pytest.raises(wherry.InvalidPayload, match="task 1"):
            app.enqueue_many(
                [{"type": "note", "payload": {"n": 1}}, {"type": "note", "payload": {"n": {2}}}]
            )
        with pytest.raises(wherry.UnknownType):
            app.enqueue_many(
                [{"type": "note", "payload": {"n": 1}}, {"type": "gone", "payload": {}}]
            )
        assert ran == []
        answers = note.enqueue_many([{"n": 1}, {"n": 2}])

    assert ran == [1, 2]
    assert [answer.id for answer in answers] == [1, 2]


def test_the_context_is_that_of_the_task(app: wherry.App) -> None:
    seen: list[Any] = []

    @app.task(name="look", queue="eyes")
    def look() -> None:
        context = wherry.current()
        seen.append((context.task_id, context.attempt, context.cancelled, context.headers))

    with inline(app):
        enqueued = look.using(headers={"trace": "t1"}).enqueue()

    assert seen == [(enqueued.id, 1, False, {"trace": "t1"})]
    with pytest.raises(LookupError):
        wherry.current()


async def test_nested_tasks_have_contexts_of_their_own(app: wherry.App) -> None:
    seen: list[int] = []

    @app.task(name="inner")
    async def inner() -> None:
        seen.append(wherry.current().task_id)

    @app.task(name="outer")
    async def outer() -> None:
        seen.append(wherry.current().task_id)
        await wherry.current().aenqueue("inner")
        seen.append(wherry.current().task_id)

    with inline(app):
        await outer.aenqueue()

    assert seen == [1, 2, 1]


def test_completing_in_a_transaction_keeps_the_result(app: wherry.App) -> None:
    @app.task(name="finish")
    def finish() -> int:
        wherry.current().complete(tx=MagicMock(), result={"n": 1})
        return 2

    with inline(app):
        assert finish.enqueue().result(timeout=1) == {"n": 1}


def test_what_is_returned_after_completing_is_not_kept_and_the_error_says_so(
    app: wherry.App,
) -> None:
    @app.task(name="finish", store_result=True)
    def finish() -> int:
        wherry.current().complete(tx=MagicMock())
        return 2

    with inline(app), pytest.raises(wherry.ResultNotStored, match=r"complete\(tx=..., result="):
        finish.enqueue().result(timeout=1)


def test_a_result_that_is_not_stored_is_not_there(app: wherry.App) -> None:
    @app.task(name="quiet")
    def quiet() -> int:
        return 1

    with inline(app):
        with pytest.raises(wherry.ResultNotStored):
            quiet.enqueue().result(timeout=1)
        with pytest.raises(wherry.NotFound):
            app.result(99, timeout=1)


def test_a_result_that_is_no_json_fails_for_good(app: wherry.App) -> None:
    @app.task(name="odd", store_result=True)
    def odd() -> object:
        return object()

    with inline(app) as tasks, pytest.raises(wherry.InvalidPayload, match="no word for object"):
        odd.enqueue()

    assert tasks.tasks[0].state == "failed"


def test_a_handler_that_waits_for_itself_is_told_at_once(app: wherry.App) -> None:
    @app.task(name="wait")
    def wait() -> None:
        app.result(wherry.current().task_id, timeout=3600)

    with inline(app), pytest.raises(TimeoutError, match="still leased"):
        wait.enqueue()


def test_tasks_without_end_are_stopped_with_advice(app: wherry.App) -> None:
    @app.task(name="again")
    def again() -> None:
        again.using(delay=60).enqueue()

    with inline(app), pytest.raises(RecursionError, match="run_delayed=False"):
        again.enqueue()


def test_delayed_tasks_can_be_kept_instead_of_run(app: wherry.App) -> None:
    ran: list[int] = []

    @app.task(name="poll")
    def poll(n: int) -> None:
        ran.append(n)
        poll.using(delay=60).enqueue(n=n + 1)

    with inline(app, run_delayed=False) as tasks:
        poll.enqueue(n=1)

    assert ran == [1]
    assert [(task.payload, str(task.state)) for task in tasks.tasks] == [
        ({"n": 1}, "succeeded"),
        ({"n": 2}, "queued"),
    ]


def test_calls_that_need_rows_say_so(app: wherry.App) -> None:
    with inline(app):
        with pytest.raises(wherry.ConfigError, match="manual"):
            app.cancel(1)
        with pytest.raises(wherry.ConfigError, match="list_tasks"):
            app.list_tasks()


def test_the_app_has_its_own_calls_back_afterwards(app: wherry.App) -> None:
    @app.task(name="fail")
    def fail() -> None:
        raise ConnectionError

    before = dict(vars(app))
    with pytest.raises(ConnectionError), inline(app):
        fail.enqueue()

    assert vars(app) == before
    with pytest.raises(wherry.DSNMissing):
        fail.enqueue()


def test_a_block_inside_a_block_gives_way_to_the_outer_one(app: wherry.App) -> None:
    @app.task(name="note")
    def note() -> None: ...

    with inline(app) as outer:
        with inline(app) as inner:
            note.enqueue()
        note.enqueue()

    assert (len(outer.tasks), len(inner.tasks)) == (1, 1)
