"""What a queue, a type or a key may be called: data, kept as it is, or refused."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.options import (
    LONGEST_KEY_BYTES,
    LONGEST_NAME_BYTES,
    Options,
    TaskSpec,
    check_key,
    check_name,
)
from wherry.errors import InvalidOption

ODD_BUT_FINE = [
    "a:b",
    "a/b",
    "%2F",
    "..",
    "../../etc/passwd",
    "?",
    "#",
    "a b",
    " a ",
    "'; drop table live; --",
    '"',
    "$$",
    "\\",
    "%s",
    ":name",
    "{}",
    "ü",
    "日本語",
    "😀",
    "\u200fabc\u202e",
    "\u2028",
    "a,b",
    "**",
]


def spec_of(**options: Any) -> TaskSpec:
    given = {"type": "t", "payload": "{}", "index": None, **options}
    type, payload, index = (given.pop(name) for name in ("type", "payload", "index"))
    return Options(**given).spec(type, payload, index=index)


def refusal_of(**options: Any) -> InvalidOption:
    with pytest.raises(InvalidOption) as refused:
        spec_of(**options, index=4)
    assert refused.value.index == 4
    return refused.value


@pytest.mark.parametrize("option", ["queue", "type", "key"])
@pytest.mark.parametrize("name", [*ODD_BUT_FINE, "x" * 255, "é" * 127, "😀" * 63])
def test_names_and_keys_are_data_and_kept_as_they_are(option: str, name: str) -> None:
    """IDM-10."""
    assert getattr(spec_of(**{option: name}), option) == name


@pytest.mark.parametrize("option", ["queue", "type"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must not be empty"),
        ("x" * 256, "is 256 bytes long in UTF-8; the limit is 255: shorten it"),
        ("é" * 128, "is 256 bytes long"),
        ("😀" * 64, "is 256 bytes long"),
        ("x" * 1_000_000, "is 1,000,000 bytes long"),
        ("a\0", "holds NUL, which PostgreSQL cannot store"),
        ("a\nb", "holds the control character U+000A at character 1: remove it"),
        ("a\x1b[31m", "holds the control character U+001B"),
        ("a\x7f", "holds the control character U+007F"),
        ("a\x85", "holds the control character U+0085"),
        ("\ud800", "holds a lone surrogate at character 0"),
        (b"a", "must be a string, not bytes"),
        (None, "must be a string, not NoneType"),
        (5, "must be a string, not int"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_is_no_name_is_refused(option: str, name: Any, reason: str) -> None:
    refused = refusal_of(**{option: name})

    assert refused.option == option
    assert reason in refused.reason
    assert len(str(refused)) < 300


def test_no_queue_is_called_like_all_queues() -> None:
    assert "stands for all queues" in refusal_of(queue="*").reason
    assert spec_of(type="*", key="*").type == "*"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "must not be empty"),
        ("k" * 513, "is 513 bytes long in UTF-8; the limit is 512: shorten it"),
        ("😀" * 129, "is 516 bytes long"),
        ("k" * 2_800, "is 2,800 bytes long"),
        ("k" * 10_000, "is 10,000 bytes long"),
        ("a\0b", "holds NUL"),
        ("\udfff", "holds a lone surrogate"),
        (5, "must be a string, not int"),
        (b"k", "must be a string, not bytes"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_is_no_key_is_refused(key: Any, reason: str) -> None:
    """IDM-06."""
    refused = refusal_of(key=key)

    assert refused.option == "key"
    assert reason in refused.reason


def test_keys_differ_by_case_space_and_spelling() -> None:
    keys = ["a", "A", "a ", " a", "a\n", "\u00e9", "e\u0301", "k" * 512, "😀" * 128]

    assert [spec_of(key=key).key for key in keys] == keys
    assert spec_of(key=None).key is None


def test_the_longest_queue_and_key_fit_one_index_row() -> None:
    # A btree takes 2,704 bytes a row; two text headers and the row's own take less than 50.
    assert LONGEST_NAME_BYTES + LONGEST_KEY_BYTES + 50 < 2_704


@given(st.text(st.characters(codec=None), max_size=600))
def test_any_text_is_a_safe_name_and_key_or_refused(text: str) -> None:
    for check, limit in (
        (lambda t: check_name(t, option="type"), LONGEST_NAME_BYTES),
        (check_key, LONGEST_KEY_BYTES),
    ):
        try:
            kept = check(text)
        except InvalidOption:
            continue
        assert kept == text
        assert 0 < len(kept.encode()) <= limit
        assert "\0" not in kept


def test_an_enum_is_a_name_and_goes_no_further() -> None:
    class Queue(StrEnum):
        EMAIL = "email"

    class Urgency(IntEnum):
        HIGH = 10

    spec = spec_of(queue=Queue.EMAIL, priority=Urgency.HIGH)

    assert type(spec.queue) is str
    assert type(spec.priority) is int
    assert (spec.queue, spec.priority) == ("email", 10)
