"""Exceptions that raise, lie, grow or hide when they are looked at: all can be stored."""

from __future__ import annotations

import time
from types import FunctionType
from typing import Any, NoReturn

import pytest

from wherry.domain.failure import (
    MESSAGE_LIMIT_BYTES,
    TRACEBACK_LIMIT_BYTES,
    TYPE_LIMIT_BYTES,
    Failure,
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
    started = time.thread_time()

    failure = storable(describe(caught))

    assert time.thread_time() - started < 2
    assert " characters, cut here …\n" in failure.message
    assert len(failure.message.encode()) > MESSAGE_LIMIT_BYTES - 20
    assert "# the raising line" in failure.traceback


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
