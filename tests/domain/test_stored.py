"""Texts that got into the table around the door: read exactly, or refused in a sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.stored import decode, decode_result
from wherry.errors import DecodeError, WherryError


@pytest.fixture(params=[640, 4300, 0])
def int_digits_limit(request: pytest.FixtureRequest) -> Iterator[int]:
    """What a user, or a hosting company, may have set for the whole interpreter."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield request.param
    sys.set_int_max_str_digits(before)


def reason_for(text: str) -> str:
    with pytest.raises(DecodeError) as refused:
        decode(text)
    assert refused.value.__cause__ is None
    assert len(str(refused.value)) < 200
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is broken JSON: Expecting value at character 0 of 0"),
        ("{", "is broken JSON: Expecting property name"),
        ('{"a": 1,}', "is broken JSON"),
        ("{'a': 1}", "is broken JSON"),
        ('{"a": 1} {}', "is broken JSON: Extra data at character 9 of 11"),
        ('{"a": "\x01"}', "is broken JSON: Invalid control character"),
        ('{"a": "\\x"}', "is broken JSON: Invalid \\escape"),
        ('\ufeff{"a": 1}', "is broken JSON"),
        ("x" * 1_000_000, "is broken JSON: Expecting value at character 0 of 1,000,000"),
        ("[]", "is no JSON object but an array"),
        ('"a"', "is no JSON object but a string"),
        ("1", "is no JSON object but a number"),
        ("1.5", "is no JSON object but a number"),
        ("true", "is no JSON object but a boolean"),
        ("null", "is no JSON object but null"),
        ('{"a": NaN}', "holds NaN, which is no JSON"),
        ('{"a": -Infinity}', "holds -Infinity, which is no JSON"),
        ('{"a": 1e400}', "holds the number 1e400, which is beyond a float"),
        ('{"a": -1.5E999}', "holds the number -1.5E999, which is beyond a float"),
        ('{"a": %s.5}' % ("9" * 400), "which is beyond a float"),
    ],
)
def test_a_broken_text_is_refused_with_a_short_reason(text: str, reason: str) -> None:
    refused = reason_for(text)

    assert refused.startswith("the stored payload ")
    assert reason in refused


@pytest.mark.parametrize("digits", [1001, 4299, 4301, 20_000, 2_000_000])
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.usefixtures("int_digits_limit")
def test_an_integer_of_more_than_a_thousand_digits_is_refused_whatever_the_limit(
    digits: int, sign: str
) -> None:
    reason = reason_for('{"a": [1, %s%s]}' % (sign, "7" * digits))  # noqa: UP031 - braces

    assert f"holds an integer of {digits:,} digits; the limit is 1,000" in reason


@given(
    st.integers(min_value=1, max_value=1000),
    st.integers(min_value=0, max_value=200),
    st.sampled_from(["", "-"]),
)
def test_an_integer_of_up_to_a_thousand_digits_is_exact(
    digits: int, padding: int, sign: str
) -> None:
    literal = sign + "9" * digits

    value = decode_result(f"[{' ' * padding}{literal},{literal}]")

    assert value == [int(sign + "1") * (10**digits - 1)] * 2


@pytest.mark.usefixtures("int_digits_limit")
def test_a_thousand_digits_are_read_under_the_lowest_limit() -> None:
    assert decode('{"a": -1%s}' % ("0" * 999)) == {"a": -(10**999)}


def test_digits_in_a_string_are_no_integer() -> None:
    text = json.dumps({"digits": "1" * 20_000, "n": 5})

    assert decode(text) == {"digits": "1" * 20_000, "n": 5}


@pytest.mark.parametrize("levels", [65, 200, 5_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused_and_kills_nobody(levels: int, opening: str, closing: str) -> None:
    text = '{"a":' + opening * (levels - 2) + "[]" + closing * (levels - 2) + "}"

    assert reason_for(text) == "the stored payload is nested more than 64 levels deep"


def test_an_unclosed_deep_nesting_is_refused_too() -> None:
    assert reason_for("[" * 1_000_000).startswith("the stored payload is ")


def test_sixty_four_levels_are_read() -> None:
    text = '{"a":' + "[" * 63 + "]" * 63 + "}"
    wide = json.dumps({"rows": [{"tags": ["[", "{"]}] * 100})

    assert decode_result(text)["a"] == json.loads(text)["a"]
    assert decode(wide) == json.loads(wide)
    assert decode_result(json.dumps("[" * 100)) == "[" * 100


def test_a_repeated_key_counts_as_in_jsonb_by_its_last_value() -> None:
    assert decode('{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1.10", 1.1),
        ("-0.0", -0.0),
        ("-0", 0),
        ("1e23", 1e23),
        ("5e-324", 5e-324),
        ("1E2", 100.0),
        ("9007199254740993", 9007199254740993),
        ("1e-400", 0.0),
        ("1" + "0" * 308, 10**308),
        ("1" + "0" * 400, 10**400),
    ],
)
def test_numbers_are_read_exactly_and_integers_stay_integers(literal: str, value: Any) -> None:
    back = decode_result(literal)

    assert repr(back) == repr(value)


def test_the_reason_names_what_was_read() -> None:
    with pytest.raises(WherryError, match="^the stored result is broken JSON"):
        decode_result("{")
    with pytest.raises(DecodeError, match="^the stored headers is no JSON object"):
        decode("[]", what="headers")


@given(st.text())
def test_nothing_but_a_decode_error_comes_of_any_text(text: str) -> None:
    try:
        value = decode(text)
    except DecodeError:
        return

    assert type(value) is dict
