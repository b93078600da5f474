"""What becomes of a task whose handler returned, failed, or could not even be called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

import wherry
from tests.worker.support import all_finished, at_work, drained, failed_once, finished, get
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.testing import Clock

Connect = Callable[..., psycopg.Connection[Any]]


class NotJSON:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __json__(self) -> str:
        raise RuntimeError("no JSON")


async def test_a_result_that_is_no_json_fails_the_task_and_nothing_else(app: wherry.App) -> None:
    """LOST-10."""

    @app.task(name="returns", store_result=True, max_attempts=3)
    async def returns(kind: str) -> Any:
        return {"object": NotJSON(), "nan": float("nan"), "nul": "a\x00b", "fine": [1]}[kind]

    @app.task(name="raises", max_attempts=1)
    async def raises() -> None:
        raise ValueError(NotJSON())

    ids = [(await app.aenqueue("returns", {"kind": k})).id for k in ("object", "nan", "nul")]
    raised = (await app.aenqueue("raises")).id
    fine = (await app.aenqueue("returns", {"kind": "fine"})).id

    await drained(app)

    for id_ in ids:
        task = await get(app, id_)
        assert task.state is State.FAILED
        assert task.reason == "its result is not JSON"
        assert [attempt.error_type for attempt in task.history] == ["wherry.errors.InvalidPayload"]
    assert (await get(app, raised)).state is State.DEAD
    assert (await get(app, fine)).result == [1]


async def test_what_is_not_stored_need_not_be_json(app: wherry.App) -> None:
    @app.task(name="returns")
    async def returns() -> Any:
        return NotJSON()

    id_ = (await app.aenqueue("returns")).id

    await drained(app)

    assert (await get(app, id_)).state is State.SUCCEEDED


async def test_an_unreadable_payload_fails_its_task_and_is_kept(
    app: wherry.App, connect: Connect
) -> None:
    """LOST-06, LOST-14: nine of ten due tasks run, whatever is stored for the fourth."""

    @app.task(name="adds")
    async def adds(n: int) -> None:
        pass

    ids = [(await app.aenqueue("adds", {"n": n}, delay=0.2)).id for n in range(10)]
    broken = '{"n": 1e999}'
    connection = connect()
    connection.execute("update wherry.live set payload = %s::json where id = %s", [broken, ids[3]])

    async with at_work(app):
        tasks = await all_finished(app, ids)

    assert [task.state for task in tasks].count(State.SUCCEEDED) == 9
    bad = tasks[3]
    assert bad.state is State.FAILED
    [attempt] = bad.history
    assert attempt.error_type == "wherry.errors.DecodeError"
    assert "beyond a float" in (attempt.message or "")
    assert bad.payload_text == broken


async def test_a_decode_error_of_the_handler_itself_is_an_error_like_any_other(
    app: wherry.App,
) -> None:
    @app.task(name="decodes", max_attempts=2, retry=Fixed(60))
    async def decodes() -> None:
        raise wherry.errors.DecodeError("of something else")

    id_ = (await app.aenqueue("decodes")).id

    await drained(app)

    assert (await get(app, id_)).state is State.QUEUED


async def test_a_payload_that_does_not_fit_the_handler_is_tried_again_and_ends_dead(
    app: wherry.App, clock: Clock, connect: Connect
) -> None:
    """HND-08: an older or newer worker may take it, so it is retried, by policy."""

    @app.task(name="fits", max_attempts=3, retry=Fixed(60))
    async def fits(n: int) -> None:
        pass

    id_ = (await app.aenqueue("fits", {"m": 1})).id

    for attempts in (1, 2):
        await drained(app)
        task = await get(app, id_)
        assert (task.state, task.attempts) == (State.QUEUED, attempts)
        clock.advance(seconds=61)
    await drained(app)

    task = await get(app, id_)
    assert (task.state, task.attempts) == (State.DEAD, 3)
    assert {attempt.error_type for attempt in task.history} == {"wherry.errors.HandlerError"}
    assert "it lacks n" in (task.error or "")
    gaps = [a.retry_at - a.ended_at for a in task.history if a.retry_at]
    assert gaps == [timedelta(seconds=60)] * 2


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_a_handler_may_do_anything_to_its_payload(app: wherry.App, is_async: bool) -> None:
    """PAY-08: what is stored is never made from the handler's object."""
    seen: list[Any] = []

    def spoil(given: dict[str, Any]) -> None:
        seen.append(dict(given))
        given["v"] = UUID(int=7)
        given["self"] = given
        del given["k"]
        if len(seen) == 1:
            raise ValueError("once more")

    if is_async:

        @app.task(name="spoils", retry=Fixed(0))
        async def spoils(payload: dict[str, Any]) -> None:
            spoil(payload)
    else:

        @app.task(name="spoils", retry=Fixed(0))
        def plain(payload: dict[str, Any]) -> None:
            spoil(payload)

    id_ = (await app.aenqueue("spoils", {"payload": {"v": "a", "k": 1}})).id

    await drained(app)

    task = await get(app, id_)
    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert seen == [{"v": "a", "k": 1}] * 2
    assert task.payload == {"payload": {"v": "a", "k": 1}}


async def test_every_way_to_fail_waits_by_the_same_policy(app: wherry.App, clock: Clock) -> None:
    """HND-09: an exception, a timeout, a lost worker."""
    started = asyncio.Event()

    @app.task(name="raises", retry=Fixed(60))
    async def raises() -> None:
        raise ValueError("now")

    @app.task(name="hangs", retry=Fixed(60), timeout=0.1)
    async def hangs() -> None:
        await asyncio.sleep(600)

    @app.task(name="is lost", retry=Fixed(60), timeout=600)
    async def is_lost() -> None:
        started.set()
        await asyncio.sleep(600)

    ids = [(await app.aenqueue(name)).id for name in ("raises", "hangs", "is lost")]

    async with at_work(app, shutdown=0):
        await started.wait()
        for id_ in ids[:2]:
            await failed_once(app, id_)
        clock.advance(seconds=40)
        await app.areap()
    tasks = [await get(app, id_) for id_ in ids]

    for task, error in zip(tasks, ("ValueError", "TimeoutError", "LeaseExpired"), strict=True):
        [attempt] = task.history
        assert attempt.error_type == error
        assert attempt.retry_at is not None
        assert attempt.retry_at - attempt.ended_at == timedelta(seconds=60)
        assert task.state is State.QUEUED


async def test_parents_that_wait_for_their_children_in_all_slots_are_warned(
    app: wherry.App, caplog: pytest.LogCaptureFixture
) -> None:
    """HND-11: the wait has an end, and then the children run."""

    @app.task(name="child", store_result=True)
    async def child() -> int:
        return 1

    @app.task(name="parent", max_attempts=1)
    async def parent() -> None:
        made = await wherry.current().aenqueue("child")
        children.append(made.id)
        await made.aresult(timeout=0.5)

    children: list[int] = []
    parents = [(await app.aenqueue("parent")).id for _ in range(4)]

    async with at_work(app, concurrency=4):
        tasks = await all_finished(app, parents)
        done = await all_finished(app, children)

    # Until the first of them has given up, nothing moves; its slot may then save the others.
    given_up = [task for task in tasks if task.state is State.DEAD]
    assert {task.history[0].error_type for task in given_up} == {"TimeoutError"}
    assert {task.state for task in done} == {State.SUCCEEDED}
    assert "holds a slot meanwhile" in caplog.text


async def test_what_will_be_retried_is_a_warning_and_only_the_dead_are_an_error(
    app: wherry.App, caplog: pytest.LogCaptureFixture
) -> None:
    """RET-06."""

    @app.task(name="flaky", retry=Fixed(0), max_attempts=3)
    async def flaky() -> None:
        if wherry.current().attempt < 3:
            raise ValueError("not yet")

    @app.task(name="poison", retry=Fixed(0), max_attempts=2)
    async def poison() -> None:
        raise ValueError("never")

    flaky_id = (await app.aenqueue("flaky")).id
    with caplog.at_level(logging.WARNING, logger="wherry"):
        await drained(app)

    assert (await finished(app, flaky_id)).state is State.SUCCEEDED
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    caplog.clear()

    poison_id = (await app.aenqueue("poison")).id
    with caplog.at_level(logging.WARNING, logger="wherry"):
        await drained(app)

    assert (await finished(app, poison_id)).state is State.DEAD
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "never" in caplog.records[-1].getMessage()


async def test_a_parameter_may_have_any_name(app: wherry.App) -> None:
    """Names of the worker's own parameters among them."""
    seen: list[int] = []

    @app.task(name="plain", max_attempts=1)
    def plain(context: int, function: int, callable: int, self: int) -> None:
        seen.append(context + function + callable + self)

    @app.task(name="async", max_attempts=1)
    async def handler(context: int, function: int, callable: int, self: int) -> None:
        seen.append(context + function + callable + self)

    payload = {"context": 1, "function": 2, "callable": 3, "self": 4}
    await app.aenqueue("plain", payload)
    await app.aenqueue("async", payload)

    await drained(app)

    assert seen == [10, 10]


async def test_a_plain_handler_that_returns_a_coroutine_is_told_so(app: wherry.App) -> None:
    """Nobody would await it: the task would have succeeded without having run."""

    async def inner() -> None:
        pass

    @app.task(name="forgets", max_attempts=1)
    def forgets() -> Any:
        return inner()

    id_ = (await app.aenqueue("forgets")).id

    await drained(app)

    task = await get(app, id_)
    assert task.state is State.DEAD
    assert "nobody would await" in (task.error or "")


async def test_a_decorated_async_handler_is_awaited_whatever_the_decorator_makes_of_it(
    app: wherry.App,
) -> None:
    import functools

    ran: list[tuple[str, int]] = []

    def as_future(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(**arguments: Any) -> Any:
            # The handler's context is there already in a decorator's plain part.
            ran.append(("decorator", wherry.current().attempt))
            return asyncio.ensure_future(function(**arguments))

        return wrapper

    @app.task(name="wrapped", max_attempts=1)
    @as_future
    async def wrapped() -> None:
        ran.append(("handler", wherry.current().attempt))

    id_ = (await app.aenqueue("wrapped")).id

    await drained(app)

    assert (await get(app, id_)).state is State.SUCCEEDED
    assert ran == [("decorator", 1), ("handler", 1)]
