"""Whatever an exception does when it is looked at, its failure can be stored, searched and read."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.failure import (
    MESSAGE_LIMIT_BYTES,
    TRACEBACK_LIMIT_BYTES,
    TYPE_LIMIT_BYTES,
    Failure,
    clean,
    describe,
)

HERE = __name__


def raised(error: BaseException) -> BaseException:
    """Return *error* after it was raised, so that it has a traceback."""
    try:
        raise error  # the raising line
    except BaseException as caught:
        return caught


def storable(failure: Failure) -> Failure:
    """Assert what PostgreSQL, and a listing, ask of the three texts."""
    for text, limit in (
        (failure.type, TYPE_LIMIT_BYTES),
        (failure.message, MESSAGE_LIMIT_BYTES),
        (failure.traceback, TRACEBACK_LIMIT_BYTES),
    ):
        assert type(text) is str
        assert len(text.encode()) <= limit
        assert "\0" not in text
    assert failure.type.isprintable()
    return failure


class MyError(Exception):
    def __init__(self, obj: object) -> None:
        super().__init__(obj)
        self.obj = obj


def test_type_message_and_raising_line_are_in_it() -> None:
    failure = storable(describe(raised(MyError(obj=7))))

    assert failure.type == f"{HERE}.MyError"
    assert failure.message == "7"
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "    raise error  # the raising line\n" in failure.traceback
    assert f'File "{__file__}", line ' in failure.traceback
    assert ", in raised\n" in failure.traceback
    assert failure.traceback.endswith(f"\n{HERE}.MyError: 7")


def test_builtin_errors_go_by_their_short_name() -> None:
    failure = describe(raised(ValueError("bad thing")))

    assert failure.type == "ValueError"
    assert failure.traceback.endswith("\nValueError: bad thing")


def test_an_error_without_words_is_its_type() -> None:
    failure = describe(raised(ValueError()))

    assert failure.message == ""
    assert failure.traceback.endswith("\nValueError")


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    assert describe(ValueError("x")).traceback == "ValueError: x"


def test_a_cut_text_keeps_head_and_tail_and_says_how_long_it_was() -> None:
    cut = clean("HEAD" + "x" * 100_000 + "TAIL", 1000)

    assert cut.startswith("HEADxxx")
    assert cut.endswith("xxxTAIL")
    assert "\n… 100,008 characters, cut here …\n" in cut
    assert len(cut.encode()) == 1000


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("bad\0bytes", "bad\\u0000bytes"),
        ("a\ud800b", "a\\ud800b"),
        (b"\xff".decode(errors="surrogateescape"), "\\udcff"),
        ("plain\n\ttext é 😀", "plain\n\ttext é 😀"),
        ("", ""),
    ],
)
def test_what_postgresql_cannot_store_is_shown_escaped(text: str, cleaned: str) -> None:
    assert clean(text, 100) == cleaned


@given(st.text(st.characters(codec=None), max_size=300), st.integers(0, 200))
def test_cleaned_text_is_always_storable_and_within_its_limit(text: str, limit: int) -> None:
    cleaned = clean(text, limit)

    assert len(cleaned.encode()) <= limit
    assert "\0" not in cleaned
    if "\0" not in text and text.isascii() and len(text) <= limit:
        assert cleaned == text


def test_a_nul_in_the_message_is_shown() -> None:
    assert describe(raised(Exception("bad\0bytes"))).message == "bad\\u0000bytes"


def test_a_cause_is_told_before_its_effect() -> None:
    def handler() -> None:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise MyError("second") from first

    with pytest.raises(MyError) as caught:
        handler()

    told = storable(describe(caught.value)).traceback

    assert told.index("KeyError: 'first'") < told.index("direct cause of the following")
    assert told.index("direct cause of the following") < told.index("MyError: second")
    assert told.count("Traceback (most recent call last):") == 2


def test_an_error_while_handling_another_tells_both_unless_suppressed() -> None:
    def careless() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise MyError("second")  # noqa: B904

    def discreet() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise MyError("second") from None

    with pytest.raises(MyError) as both:
        careless()
    with pytest.raises(MyError) as alone:
        discreet()

    assert "During handling of the above exception" in describe(both.value).traceback
    assert "KeyError" in describe(both.value).traceback
    assert "KeyError" not in describe(alone.value).traceback


def test_causes_in_a_circle_are_told_once() -> None:
    first, second = raised(ValueError("first")), raised(ValueError("second"))
    first.__cause__, second.__cause__ = second, first

    told = storable(describe(first)).traceback

    assert told.count("ValueError: second") == 1
    assert told.count("ValueError: first") == 1
    assert "<ValueError again>" in told


def test_a_chain_without_end_is_cut() -> None:
    error = raised(ValueError("0"))
    last = error
    for number in range(1, 5_000):
        last.__context__ = last = raised(ValueError(str(number)))

    told = storable(describe(error)).traceback

    assert told.endswith("ValueError: 0")
    assert "<earlier exceptions are left out>" in told


def test_a_group_tells_each_of_its_members() -> None:
    members = [raised(ValueError("one")), raised(MyError("two")), raised(KeyError("three"))]
    group = raised(ExceptionGroup("all at once", [e for e in members if isinstance(e, Exception)]))

    failure = storable(describe(group))

    assert failure.type == "ExceptionGroup"
    assert failure.message == "all at once (3 sub-exceptions)"
    for said in ("ValueError: one", "MyError: two", "KeyError: 'three'", "+- 3 of 3 -"):
        assert said in failure.traceback
    assert failure.traceback.count("  | ") >= 9


async def test_the_errors_of_a_task_group_are_all_there() -> None:
    async def fail(word: str) -> None:
        raise MyError(word)

    async def fail_twice() -> None:
        async with asyncio.TaskGroup() as group:
            for word in ("one", "two"):
                group.create_task(fail(word))

    with pytest.raises(ExceptionGroup) as caught:
        await fail_twice()

    told = storable(describe(caught.value)).traceback

    assert "MyError: one" in told
    assert "MyError: two" in told


def test_groups_in_groups_and_crowds_are_bounded() -> None:
    group: Exception = ValueError("innermost")
    for depth in range(100):
        inside: list[Exception] = [group, ValueError(str(depth))]
        group = ExceptionGroup(f"depth {depth}", inside)
    crowd = ExceptionGroup("crowd", [ExceptionGroup("c", [ValueError("x")] * 500)] * 500)
    started = time.thread_time()

    deep, wide = storable(describe(group)), storable(describe(crowd))

    assert time.thread_time() - started < 2
    assert "more exceptions are left out" in deep.traceback
    assert "<485 more exceptions are left out>" in wide.traceback
    assert "<ExceptionGroup again>" in wide.traceback


def test_a_group_that_contains_its_own_cause_is_told_once() -> None:
    member = ValueError("member")
    group = ExceptionGroup("group", [member])
    member.__cause__ = group

    told = storable(describe(group)).traceback

    assert told.count("ValueError: member") == 1
    assert "<ExceptionGroup again>" in told


def test_notes_are_told_and_bounded() -> None:
    error = raised(ValueError("x"))
    for number in range(100):
        error.add_note(f"note {number} " + "n" * 10_000)

    told = storable(describe(error)).traceback

    assert "<80 more notes are left out>" in told


def test_exits_and_cancellations_are_described_like_the_rest() -> None:
    assert describe(raised(SystemExit(3))).type == "SystemExit"
    assert describe(raised(KeyboardInterrupt())).type == "KeyboardInterrupt"
    assert describe(raised(asyncio.CancelledError("why"))).message == "why"


def test_a_failure_reported_as_text_is_cleaned_and_cut_alike() -> None:
    failure = storable(
        Failure.of_text("bad\0" + "x" * 100_000, type="my\nerror", traceback="t\0" * 100_000)
    )

    assert failure.message.startswith("bad\\u0000xxx")
    assert failure.type == "my\\u000aerror"
    assert Failure.of_text("x") == Failure(type="Error", message="x", traceback="")


def test_an_ordinary_failure_costs_next_to_nothing() -> None:
    error = raised(ValueError("x"))
    describe(error)
    started = time.thread_time()

    for _ in range(100):
        describe(error)

    # About 5 µs each; the bound only catches a change of kind.
    assert time.thread_time() - started < 0.2
