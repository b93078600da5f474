"""What cannot come back equal is refused at the door: what, where, and what to do."""

from __future__ import annotations

import uuid
from collections import UserDict, namedtuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from wherry.domain.stored import decode
from wherry.errors import InvalidPayload, InvalidTask, WherryError
from wherry.tasks.payload import encode, encode_result

NAN, INF = float("nan"), float("inf")


def refusal_of(payload: Any, **options: Any) -> InvalidPayload:
    with pytest.raises(InvalidPayload) as refused:
        encode(payload, **options)
    return refused.value


def nested(levels: int, *, of: str = "list") -> Any:
    """Return a payload of so many containers within one another."""
    value: Any = {} if of == "dict" else []
    for _ in range(levels - 2):
        value = {"a": value} if of == "dict" else [value]
    return {"a": value}


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped one is what people pass


class Plain(Enum):
    A = 1


class NotANumber(float):
    pass


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a\0b", "holds NUL (U+0000) at character 1"),
        ("\ud800", "lone surrogate U+D800 at character 0"),
        ("ab\udc00x", "lone surrogate U+DC00 at character 2"),
        (b"\xff\xfe".decode(errors="surrogateescape"), "lone surrogate U+DCFF at character 0"),
        (NAN, "no word for the number nan"),
        (INF, "no word for the number inf"),
        (-INF, "no word for the number -inf"),
        (NotANumber("nan"), "no word for the number nan"),
        (10**1000, "more than 1,000 digits: pass it as a string"),
        (-(10**1000), "more than 1,000 digits"),
        (1 << 10_000_000, "more than 1,000 digits"),
        ((1, 2), "no word for tuple: pass a list"),
        ((), "no word for tuple"),
        (Point(1, 2), "pass a list"),
        ({1, 2}, "no word for set: pass a sorted list"),
        (frozenset(), "no word for frozenset"),
        (b"\xff\xfe", "no word for bytes: pass text, such as base64"),
        (bytearray(), "no word for bytearray"),
        (datetime.now(UTC), "no word for datetime.datetime: pass value.isoformat()"),
        (datetime.now(UTC).date(), "pass value.isoformat()"),
        (timedelta(1), "pass value.total_seconds()"),
        (uuid.UUID(int=1), "no word for uuid.UUID: pass str(value)"),
        (Decimal("NaN"), "no word for decimal.Decimal: pass str(value)"),
        (Fraction(1, 3), "pass str(value)"),
        (Path("/tmp"), "pass str(value)"),
        (Plain.A, "pass value.value"),
        (1j, "no word for complex: pass plain dicts, lists, strings or numbers"),
        (object(), "no word for object"),
        (print, "no word for builtin_function_or_method"),
        (..., "no word for ellipsis"),
        (range(3), "no word for range"),
        ({"a": 1}.keys(), "no word for dict_keys"),
        (MappingProxyType({}), "no word for mappingproxy"),
        (UserDict(a=1), "no word for collections.UserDict"),
        (
            type("int64", (), {"__module__": "numpy"})(),
            "no word for numpy.int64: pass value.item()",
        ),
    ],
    ids=lambda value: (
        # Without addresses, which differ from one process of xdist to the next.
        "int" if isinstance(value, int) else ascii(value).partition(" at 0x")[0][:30]
    ),
)
def test_what_json_or_postgresql_cannot_keep_is_refused_with_its_path(
    value: Any, reason: str
) -> None:
    """PAY-03, PAY-04, PAY-05, PAY-17."""
    refused = refusal_of({"user": {"names": ["a", "b", "c", value]}})

    assert refused.path == "$.user.names[3]"
    assert reason in refused.reason
    assert str(refused) == f"$.user.names[3]: {refused.reason}"


@pytest.mark.parametrize("padding", [0, 40])
def test_a_bad_value_does_not_hide_in_a_long_list(padding: int) -> None:
    before: list[Any] = list(range(padding))

    for bad in (10**1000, -(10**1000), (1,), NAN, "\0", "\ud800", b"", {1: 2}):
        assert refusal_of({"v": [*before, bad]}).path == f"$.v[{padding}]"


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (1, "int (1)"),
        (True, "bool (True)"),
        (None, "NoneType (None)"),
        (1.5, "float (1.5)"),
        (10**5000, "int,"),
        ((1,), "tuple,"),
        (b"a", "bytes,"),
        (uuid.UUID(int=1), "uuid.UUID,"),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "int",
)
def test_keys_that_json_would_quietly_change_are_refused(key: Any, shown: str) -> None:
    refused = refusal_of({"a": [{"fine": 1, key: "x"}]})

    assert refused.path == "$.a[0]"
    assert f"a key of type {shown}" in refused.reason


@pytest.mark.parametrize(
    ("key", "path", "reason"),
    [
        ("a\0", '$.a["a\\u0000"]', "this key holds NUL (U+0000) at character 1"),
        ("\udfff", '$.a["\\udfff"]', "this key holds the lone surrogate U+DFFF"),
    ],
)
def test_a_bad_key_is_refused_and_shown_escaped(key: str, path: str, reason: str) -> None:
    refused = refusal_of({"a": {key: 1}})

    assert refused.path == path
    assert reason in refused.reason
    str(refused).encode()


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("plain_1", "$.plain_1"),
        ("", '$[""]'),
        ("a.b", '$["a.b"]'),
        ("0", '$["0"]'),
        ('"]', '$["\\"]"]'),
        ("é", '$["\\u00e9"]'),
        ("k" * 1000, f'$["{"k" * 80}…"]'.replace("…", "\\u2026")),
    ],
)
def test_a_path_is_never_ambiguous_nor_huge(key: str, path: str) -> None:
    assert refusal_of({key: NAN}).path == path


@pytest.mark.parametrize(
    "payload", [None, [], [{}], "{}", b"{}", 1, True, UserDict(a=1), MappingProxyType({"a": 1})]
)
def test_a_payload_is_an_object_and_nothing_else(payload: Any) -> None:
    refused = refusal_of(payload)

    assert refused.path == "$"
    assert "the payload must be a dict (a JSON object), not " in refused.reason


@pytest.mark.parametrize("of", ["list", "dict"])
def test_sixty_four_levels_are_the_most(of: str) -> None:
    assert decode(encode(nested(64, of=of))) == nested(64, of=of)

    refused = refusal_of(nested(65, of=of))

    assert refused.reason == "nested more than 64 levels deep: make it flatter"
    assert refused.path == "$.a" + (".a" if of == "dict" else "[0]") * 63


def test_nesting_beyond_any_stack_is_refused_alike() -> None:
    """PAY-16."""
    assert "64 levels" in refusal_of(nested(100_000)).reason


def test_a_payload_that_contains_itself_is_refused() -> None:
    in_dict: dict[str, Any] = {"a": 1}
    in_dict["self"] = in_dict
    in_list: list[Any] = [1]
    in_list.append([in_list])

    assert refusal_of(in_dict).path == "$.self"
    assert "contains itself" in refusal_of(in_dict).reason
    assert refusal_of({"v": in_list}).path == "$.v[1][0]"


def test_one_object_in_two_places_is_no_cycle() -> None:
    shared = {"street": "Main"}

    text = encode({"from": shared, "to": shared, "all": [shared, shared]})

    assert decode(text)["all"] == [shared, shared]


def test_shared_parts_that_unfold_without_end_are_refused_before_they_do() -> None:
    laugh: list[Any] = ["ha"]
    for _ in range(60):
        laugh = [laugh, laugh]

    refused = refusal_of({"lol": laugh})

    assert "more than" in refused.reason
    assert "the limit is 1,048,576 bytes" in refused.reason


def test_one_list_in_very_many_places_is_refused_before_it_is_written() -> None:
    row = ["x" * 100] * 100_000

    assert "the limit is 1,048,576" in refusal_of({"rows": [row] * 100_000}).reason


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_the_limit_counts_bytes_of_utf8_and_is_said_with_the_size(letter: str) -> None:
    width = len(letter.encode())
    fits = {"v": letter * ((100 - 8) // width)}
    size = len(encode(fits, limit_bytes=100).encode())

    assert size <= 100
    assert encode(fits, limit_bytes=size)

    refused = refusal_of(fits, limit_bytes=size - 1)

    assert refused.path == "$"
    assert f"the payload takes {size} bytes; the limit is {size - 1} bytes" in refused.reason


def test_the_default_limit_is_one_mebibyte() -> None:
    assert encode({"v": "x" * (1024 * 1024 - 8)})

    refused = refusal_of({"v": "x" * (1024 * 1024 - 7)})

    assert "takes 1,048,577 bytes; the limit is 1,048,576 bytes" in refused.reason


def test_the_size_is_known_also_where_the_slow_way_is_taken() -> None:
    class Word(str):
        __slots__ = ()

    refused = refusal_of({"v": [Word("x" * 200)], "w": "\\u0000"}, limit_bytes=100)

    assert "takes 224 bytes; the limit is 100 bytes" in refused.reason


def test_a_million_values_are_refused_by_size() -> None:
    assert "the limit is" in refusal_of({"v": [0] * 2_000_000}).reason
    assert "the limit is" in refusal_of({"v": [[0]] * 1_000_000}).reason


def test_a_refusal_in_a_batch_names_the_index() -> None:
    """PAY-03."""
    refused = refusal_of({"x": NAN}, index=7)

    assert refused.index == 7
    assert str(refused).startswith("task 7 of the batch: $.x: ")
    assert refusal_of([], index=3).index == 3
    assert refusal_of({"v": "x" * 99}, index=4, limit_bytes=10).index == 4


def test_a_refusal_is_a_value_error_and_one_of_ours() -> None:
    refused = refusal_of({"x": NAN})

    assert isinstance(refused, InvalidTask)
    assert isinstance(refused, ValueError)
    assert isinstance(refused, WherryError)


def test_a_result_is_refused_by_its_own_name() -> None:
    with pytest.raises(InvalidPayload, match="the result takes 101 bytes; the limit is 50"):
        encode_result("x" * 99, limit_bytes=50)
    with pytest.raises(InvalidPayload, match=r"^\$: JSON has no word for object"):
        encode_result(object())
