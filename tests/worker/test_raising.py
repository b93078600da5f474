"""Whatever a handler raises is a failed attempt with its own type, and the worker goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import wherry
from tests.worker.support import drained, finished, get
from wherry.domain.state import State


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


class NoText(Exception):
    def __str__(self) -> Any:
        return 42


class Recursive(Exception):
    def __str__(self) -> str:
        return str(self)


class Huge(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000

    __repr__ = __str__


class Exits(Exception):
    def __str__(self) -> str:
        sys.exit(3)


class Disguised(Exception):
    def _nobody(self) -> Any:
        raise ValueError("I am nobody")

    __class__ = property(_nobody)  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]


class UnprintableFail(wherry.Fail):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class UnprintableCancel(wherry.Cancel):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class BottomlessSnooze(wherry.Snooze):
    def __init__(self) -> None:
        Exception.__init__(self)

    @property
    def delay(self) -> Any:  # type: ignore[override]
        raise RuntimeError("how long indeed")


class UnreprLocal:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def with_an_unprintable_local() -> NoReturn:
    held = UnreprLocal()
    raise ValueError("plain") from RuntimeError(type(held).__name__)


def raising(error: type[BaseException], *arguments: Any) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise error(*arguments)

    return act


HERE = __name__
# What is done, the type that is stored, and a part of the message.
FAILURES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "exit 0": (lambda: sys.exit(0), "SystemExit", "0"),
    "exit 1": (lambda: sys.exit(1), "SystemExit", "1"),
    "interrupt": (raising(KeyboardInterrupt), "KeyboardInterrupt", ""),
    "base": (raising(BaseException, "x"), "BaseException", "x"),
    "generator exit": (raising(GeneratorExit), "GeneratorExit", ""),
    "cancelled": (raising(asyncio.CancelledError), "asyncio.exceptions.CancelledError", ""),
    "timeout": (raising(TimeoutError, "of a call"), "TimeoutError", "of a call"),
    "unprintable": (raising(Unprintable), f"{HERE}.Unprintable", "<unprintable"),
    "no text": (raising(NoText), f"{HERE}.NoText", "<unprintable"),
    "recursive": (raising(Recursive), f"{HERE}.Recursive", "<unprintable"),
    "huge": (raising(Huge), f"{HERE}.Huge", "cut here"),
    "exits in str": (raising(Exits), f"{HERE}.Exits", "<unprintable"),
    "disguised": (raising(Disguised, "hm"), f"{HERE}.Disguised", "hm"),
    "local": (with_an_unprintable_local, "ValueError", "plain"),
    "group": (
        raising(ExceptionGroup, "two", [ValueError("a"), KeyError("b")]),
        "ExceptionGroup",
        "two",
    ),
    "base group": (
        raising(BaseExceptionGroup, "two", [SystemExit(3)]),
        "BaseExceptionGroup",
        "two",
    ),
    "nul": (raising(ValueError, "bad\x00bytes \ud800"), "ValueError", "bad\\u0000bytes \\ud800"),
    "bad snooze": (raising(BottomlessSnooze), f"{HERE}.BottomlessSnooze", ""),
    "retry soon": (
        raising(wherry.Retry, "soon"),
        "wherry.signals.Retry",
        "soon",
    ),
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_whatever_is_raised_is_a_failure_of_its_own_type(
    app: wherry.App, is_async: bool
) -> None:
    """HND-02, HND-03, HND-07, PAY-02."""
    if is_async:

        @app.task(name="fails", max_attempts=1)
        async def fails(kind: str) -> None:
            FAILURES[kind][0]()
    else:

        @app.task(name="fails", max_attempts=1)
        def plain(kind: str) -> None:
            FAILURES[kind][0]()

    ids = {kind: (await app.aenqueue("fails", {"kind": kind})).id for kind in FAILURES}

    summary = await drained(app, concurrency=3)

    assert summary.exit_code == 0
    for kind, (_, type_name, message) in FAILURES.items():
        task = await get(app, ids[kind])
        assert (kind, task.state) == (kind, State.DEAD)
        [attempt] = task.history
        assert (kind, attempt.error_type) == (kind, type_name)
        assert message in (attempt.message or ""), kind
        assert len(attempt.message or "") <= 8192
        assert len(attempt.traceback or "") <= 32768


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_stop_iteration_is_told_as_python_tells_it(app: wherry.App, is_async: bool) -> None:
    """HND-07: a coroutine cannot raise it, so Python itself makes it a RuntimeError."""
    if is_async:

        @app.task(name="stops", max_attempts=1)
        async def stops() -> None:
            raise StopIteration(3)
    else:

        @app.task(name="stops", max_attempts=1)
        def plain() -> None:
            raise StopIteration(3)

    id_ = (await app.aenqueue("stops")).id

    await drained(app)

    [attempt] = (await get(app, id_)).history
    assert attempt.error_type == ("RuntimeError" if is_async else "StopIteration")
    assert "StopIteration" in (attempt.traceback or "")


@pytest.mark.parametrize(
    ("error", "state"),
    [(UnprintableFail, State.FAILED), (UnprintableCancel, State.CANCELED)],
)
async def test_an_outcome_without_readable_text_is_that_outcome(
    app: wherry.App, error: type[Exception], state: State
) -> None:
    """HND-02."""

    @app.task(name="ends")
    async def ends() -> None:
        raise error

    id_ = (await app.aenqueue("ends")).id

    await drained(app)

    task = await get(app, id_)
    assert task.state is state
    assert "unprintable" in (task.reason or "")


async def test_the_end_of_a_huge_message_is_kept_in_the_reason(app: wherry.App) -> None:
    """HND-02."""

    @app.task(name="ends")
    async def ends() -> None:
        raise wherry.Fail("x" * 5_000_000 + " the end")

    id_ = (await app.aenqueue("ends")).id

    await drained(app)

    reason = (await get(app, id_)).reason or ""
    assert reason.endswith(" the end")
    assert len(reason) <= 8192


async def test_a_retry_function_may_do_anything(app: wherry.App) -> None:
    """HND-02: it runs in the worker, and a policy is no reason for a task to hang."""

    def policy(attempts: int, error: BaseException | None) -> float:
        sys.exit(1)

    @app.task(name="fails", retry=policy)
    async def fails() -> None:
        raise ValueError("as ever")

    id_ = (await app.aenqueue("fails")).id

    await drained(app)

    task = await get(app, id_)
    assert task.state is State.QUEUED
    # The usual policy may try again in no time.
    assert {attempt.error_type for attempt in task.history} == {"ValueError"}


async def test_a_retry_policy_that_only_sql_could_store_is_passed_over(
    app: wherry.App, connect: Callable[..., Any]
) -> None:
    @app.task(name="fails")
    async def fails() -> None:
        raise ValueError("as ever")

    stored = ['{"kind": "fixed", "delay": 1e999}', "[" * 80 + "]" * 80, '"fixed"', "17"]
    ids = [(await app.aenqueue("fails")).id for _ in stored]
    connection = connect()
    for id_, retry in zip(ids, stored, strict=True):
        connection.execute("update wherry.live set retry = %s where id = %s", [retry, id_])

    await drained(app)

    [[waiting]] = connection.execute(
        "select count(*) from wherry.live where last_error is not null"
    ).fetchall()
    assert waiting == len(stored)


async def test_a_failed_attempt_keeps_what_the_handler_held_no_longer_than_it(
    app: wherry.App,
) -> None:
    """An error holds its frames: were it kept, so would be connections and files."""
    import weakref

    class Held:
        pass

    kept: list[weakref.ref[Held]] = []

    @app.task(name="fails", max_attempts=1)
    async def fails() -> None:
        held = Held()
        kept.append(weakref.ref(held))
        raise ValueError("lets go")

    id_ = (await app.aenqueue("fails")).id

    await drained(app)

    await finished(app, id_)
    assert kept[0]() is None
