"""Whatever an exception does when it is looked at, its failure can be stored, searched and read."""

from __future__ import annotations

import asyncio
import time
from types import FunctionType
from typing import Any, NoReturn

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
    type_name,
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


class StrRaises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class StrExits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class StrIsNone(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class StrRecurses(Exception):
    def __str__(self) -> str:
        return str(self)


class Text(str):
    __slots__ = ()

    def __getitem__(self, _: object) -> str:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    __str__ = __repr__ = __len__  # type: ignore[assignment]


class StrIsOdd(Exception):
    def __str__(self) -> str:
        return Text("odd but readable")


class EverythingRaises(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def booby_trap(_: object) -> NoReturn:
    raise SystemExit


PropertiesRaise = type(
    "PropertiesRaise",
    (Exception,),
    dict.fromkeys(
        ["__cause__", "__context__", "__traceback__", "__notes__", "__class__"],
        property(booby_trap),
    ),
)


class HugeRepr:
    def __repr__(self) -> str:
        return "r" * 10_000_000


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


@pytest.mark.parametrize(
    "kind", [StrRaises, StrExits, StrIsNone, StrRecurses, EverythingRaises, PropertiesRaise]
)
def test_a_hostile_exception_is_named_and_its_frames_are_shown(kind: type[Exception]) -> None:
    failure = storable(describe(raised(kind("x"))))

    assert failure.type == f"{HERE}.{kind.__name__}"
    if kind is not PropertiesRaise:
        assert failure.message == f"<unprintable {HERE}.{kind.__name__}>"
    assert "# the raising line" in failure.traceback


def test_a_string_of_an_odd_class_is_taken_by_its_characters() -> None:
    failure = storable(describe(raised(StrIsOdd())))

    assert failure.message == "odd but readable"


def test_an_argument_that_cannot_be_printed_does_not_hide_the_error() -> None:
    class NoRepr:
        def __repr__(self) -> str:
            raise RuntimeError

    failure = storable(describe(raised(ValueError("a", NoRepr()))))

    assert (failure.type, failure.message) == ("ValueError", "<unprintable ValueError>")


def test_local_variables_are_never_looked_at() -> None:
    class Untouchable:
        def __repr__(self) -> str:
            raise AssertionError("somebody looked")

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

        def __dir__(self) -> list[str]:
            raise AssertionError("somebody looked for spellings")

    def handler() -> None:
        local = Untouchable()
        local.spelled_worng()

    with pytest.raises(AttributeError) as caught:
        handler()

    failure = storable(describe(caught.value))

    assert failure.type == "AttributeError"
    assert "local.spelled_worng()" in failure.traceback


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x " * 2_000_000),
        ValueError(HugeRepr()),
        ValueError(HugeRepr(), HugeRepr()),
        MyError(HugeRepr()),
        KeyError("\0\ud800" * 1_000_000),
    ],
    ids=["text", "repr", "two reprs", "own class", "unstorable"],
)
def test_a_huge_message_is_cut_in_the_middle_and_quickly(error: Exception) -> None:
    caught = raised(error)
    started = time.perf_counter()

    failure = storable(describe(caught))

    assert time.perf_counter() - started < 2
    assert " characters, cut here …\n" in failure.message
    assert len(failure.message.encode()) > MESSAGE_LIMIT_BYTES - 20
    assert "# the raising line" in failure.traceback


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


def test_nothing_unstorable_gets_in_by_any_way() -> None:
    def handler() -> None:
        raise ValueError

    code = handler.__code__.replace(co_filename="<\udcff>", co_name="f\0\ud800")
    with pytest.raises(ValueError, match="^$") as caught:
        FunctionType(code, {})()
    caught.value.add_note("a note with \0 and \udfff")
    caught.value.args = ("bad\0bytes", "\ud800")

    failure = storable(describe(caught.value))

    assert failure.message == "('bad\\x00bytes', '\\ud800')"
    assert 'File "<\\udcff>", line ' in failure.traceback
    assert ", in f\\u0000\\ud800" in failure.traceback
    assert "a note with \\u0000 and \\udfff" in failure.traceback


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
    started = time.perf_counter()

    deep, wide = storable(describe(group)), storable(describe(crowd))

    assert time.perf_counter() - started < 2
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


@pytest.mark.parametrize("notes", [None, 5, "text", ("a",), [1, None, b"x", HugeRepr()]])
def test_notes_that_are_none_do_no_harm(notes: Any) -> None:
    error = raised(ValueError("x"))
    error.__notes__ = notes

    storable(describe(error))


def test_a_class_with_an_odd_name_gives_one_printable_bounded_line() -> None:
    odd = type("Odd", (Exception,), {"__module__": "a\nb"})
    odd.__qualname__ = "E\0\ud800" + "é" * 500

    failure = storable(describe(odd("x")))

    assert failure.type.startswith("a\\u000ab.E\\u0000\\ud800éé")
    assert failure.type.endswith("…")
    assert type_name(type("NoModule", (), {"__module__": None})) == "NoModule"


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
    started = time.perf_counter()

    for _ in range(100):
        describe(error)

    # About 5 µs each; the bound only catches a change of kind, on a busy machine too.
    assert time.perf_counter() - started < 0.2
