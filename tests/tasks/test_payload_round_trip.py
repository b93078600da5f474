"""What goes in comes out equal, or is refused: nothing in between."""

from __future__ import annotations

import json
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.stored import decode, decode_result
from wherry.errors import InvalidPayload
from wherry.tasks.careful import write_carefully
from wherry.tasks.payload import encode, encode_result

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**1000) + 1, max_value=10**1000 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(texts, inner, max_size=8),
    max_leaves=40,
)
payloads = st.dictionaries(texts, json_values, max_size=8)

anything = st.recursive(
    scalars
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8)
    | st.binary(max_size=4)
    | st.just(10**1000)
    | st.dates()
    | st.decimals(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.booleans() | st.none(), inner)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=20,
)


@pytest.fixture(params=[640, 4300, 0])
def int_digits_limit(request: pytest.FixtureRequest) -> Iterator[int]:
    """What a user, or a hosting company, may have set for the whole interpreter."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield request.param
    sys.set_int_max_str_digits(before)


@given(payloads)
def test_every_payload_of_json_words_comes_back_as_the_very_same(payload: dict[str, Any]) -> None:
    back = decode(encode(payload))

    # repr tells True from 1, 1 from 1.0, 0.0 from -0.0, and one order of keys from another.
    assert repr(back) == repr(payload)


@given(json_values)
def test_every_result_of_json_words_comes_back_as_the_very_same(value: Any) -> None:
    assert repr(decode_result(encode_result(value))) == repr(value)


@given(anything)
def test_whatever_else_is_refused_or_comes_back_as_the_very_same(value: Any) -> None:
    try:
        text = encode_result(value)
    except InvalidPayload:
        return

    assert repr(decode_result(text)) == repr(value)


@given(anything)
def test_the_quick_look_accepts_exactly_what_the_careful_one_does(value: Any) -> None:
    def answer_of(encoding: Callable[[Any], str]) -> str:
        try:
            return encoding(value)
        except InvalidPayload as refused:
            return str(refused)

    def careful(value: Any) -> str:
        return write_carefully(value, limit_bytes=1 << 20, what="result", index=None)

    assert answer_of(encode_result) == answer_of(careful)


@given(json_values)
def test_the_careful_look_writes_what_json_would(value: Any) -> None:
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    assert write_carefully(value, limit_bytes=1 << 20, what="result", index=None) == expected


@pytest.mark.parametrize(
    "value",
    [
        9007199254740993,
        10**30,
        -(10**30),
        10**999,
        10**1000 - 1,
        1 - 10**1000,
        10**500,
        -(10**500),
        10**500 - 1,
        -(10**639),
        0.1,
        -0.0,
        1e23,
        5e-324,
        1.7976931348623157e308,
        1e16,
        True,
        1,
        1.0,
        False,
        0,
        None,
        "",
        "\\u0000",
        "\\ud800",
        "\x01\x1f\x7f\u2028\u2029\ufeff\ufffe\u202e",
        "😀 ﷽ e\u0301",
        [],
        {},
        [[], {}, [{}]],
        {"": {"": ""}},
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.usefixtures("int_digits_limit")
def test_the_hard_values_come_back(value: Any) -> None:
    """PAY-06."""
    back = decode(encode({"v": value}))["v"]

    assert back == value
    assert type(back) is type(value)
    if isinstance(value, float):
        assert repr(back) == repr(value)


@pytest.mark.usefixtures("int_digits_limit")
def test_long_lists_of_long_integers_come_back() -> None:
    numbers = [10**999 + n for n in range(40)] + [-(10**700), 3]

    assert decode(encode({"numbers": numbers})) == {"numbers": numbers}


def test_integers_of_any_allowed_length_come_back_wherever_they_stand() -> None:
    for digits in (*range(636, 646), 999, 1000):
        for padding in range(0, 70, 7):
            payload = {"pad": "x" * padding, "n": 10**digits - 1, "m": [-(10**digits - 1)]}

            assert decode(encode(payload)) == payload


def test_keys_keep_their_order() -> None:
    text = encode({"b": 1, "a": 2, "10": 3, "9": 4})

    assert text == '{"b":1,"a":2,"10":3,"9":4}'
    assert list(decode(text)) == ["b", "a", "10", "9"]


def test_text_is_kept_as_unicode_not_as_escapes() -> None:
    assert encode({"é": "😀"}) == '{"é":"😀"}'


class Color(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Celsius(float):
    pass


class Address(TypedDict):
    street: str


@pytest.mark.parametrize(
    "value",
    [
        Color.RED,
        Level.HIGH,
        Celsius(-0.0),
        OrderedDict(b=1, a=2),
        defaultdict(list, a=[1]),
        Counter(a=2),
        Address(street="Main"),
        {Color.RED: [Level.HIGH, Celsius(21.5)]},
    ],
)
def test_subclasses_of_json_words_come_back_equal_as_their_base(value: Any) -> None:
    back = decode(encode({"v": value}))["v"]

    assert back == value
    assert type(back) in (str, int, float, dict)


def test_an_ordered_dict_keeps_the_order_it_was_moved_into() -> None:
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")

    assert encode(ordered) == '{"b":2,"a":1}'


def test_each_decoding_gives_an_object_of_its_own() -> None:
    text = encode({"v": [1], "k": {"deep": []}})
    first = decode(text)

    first["v"].append(first)
    first["k"]["deep"].append(date(2026, 1, 1))
    del first["k"]

    assert decode(text) == {"v": [1], "k": {"deep": []}}


def test_none_is_a_result() -> None:
    assert encode_result(None) == "null"
    assert decode_result("null") is None


def test_decimals_are_not_quietly_floats() -> None:
    with pytest.raises(InvalidPayload, match=r"^\$\.price: JSON has no word for decimal\.Decimal"):
        encode({"price": Decimal("1.10")})
