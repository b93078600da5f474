"""JSON that somebody else wrote: taken if it comes back equal, in the text that we would write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.stored import decode, decode_result
from wherry.errors import InvalidPayload
from wherry.tasks.payload import encode, encode_result_text, encode_text

_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_what_the_library_takes_is_the_same_text_however_it_was_written(
    payload: dict[str, object], in_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(payload, ensure_ascii=in_ascii, indent=indent)

    taken = encode_text(text)

    assert taken == encode(payload)
    assert decode(taken) == payload


@given(_VALUES)
def test_a_result_may_be_any_json(value: object) -> None:
    assert decode_result(encode_result_text(json.dumps(value))) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is broken JSON: Expecting value at character 0 of 0"),
        ('{"a": 1', "is broken JSON"),
        ("{'a': 1}", "is broken JSON"),
        ('{"a": 1} {}', "is broken JSON: Extra data at character 9 of 11"),
        ('\ufeff{"a": 1}', "is broken JSON"),
        ('{"a": "\n"}', "is broken JSON: Invalid control character"),
        ("[1]", "must be a JSON object, not an array"),
        ("null", "must be a JSON object, not null"),
        ('{"a": {"b": 1, "b": 1}}', 'has the key "b" twice in one object: leave one out'),
        ('{"\\u0061": 1, "a": 2}', 'has the key "a" twice'),
        ('{"a": NaN}', "holds NaN, which is no JSON"),
        ('{"a": -Infinity}', "holds -Infinity, which is no JSON"),
        ('{"a": 1e400}', "holds the number 1e400, which is beyond a float"),
        ('{"a": 1e-400}', "holds the number 1e-400, which is too near to 0"),
        ('{"a": 0.12345678901234567890}', "more digits than a float: pass it as a string"),
        ('{"a": ' + "1" * 1001 + "}", "holds an integer of 1,001 digits"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64 levels deep"),
        ("[" * 200_000, "nested more than 64 levels deep"),
    ],
)
def test_what_would_not_come_back_equal_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        encode_text(text, index=3)

    assert reason in str(refused.value)
    assert refused.value.index == 3


def test_the_path_of_what_is_wrong_is_told() -> None:
    with pytest.raises(InvalidPayload) as refused:
        encode_text('{"a": [1, {"b": "\\u0000"}]}')

    assert refused.value.path == "$.a[1].b"


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        # As printers write doubles that do not look for the shortest text.
        ('{"a": 0.10000000000000001}', '{"a":0.1}'),
        ('{"a": 1.50000000000000000000}', '{"a":1.5}'),
        ('{"a": 1E2}', '{"a":100.0}'),
        ('{"a": 0e-999}', '{"a":0.0}'),
        ('{"a": -0.0}', '{"a":-0.0}'),
        ('{"a": 12345678901234567890123}', '{"a":12345678901234567890123}'),
        ('{"\\ud83d\\ude00": 1}', '{"😀":1}'),
    ],
)
def test_numbers_and_texts_are_the_same_value(text: str, taken: str) -> None:
    assert encode_text(text) == taken


def test_a_payload_that_is_too_large_is_refused_before_and_after_it_was_read() -> None:
    with pytest.raises(InvalidPayload, match="the limit is 100 bytes"):
        encode_text('{"a": "' + "x" * 100 + '"}', limit_bytes=100)
    with pytest.raises(InvalidPayload, match="the limit is 100 bytes"):
        encode_text(" " * 1201 + "{}", limit_bytes=100)
    # Escapes are long, and what they stand for is not.
    assert encode_text('{"a": "' + "\\u0078" * 90 + '"}', limit_bytes=100)
