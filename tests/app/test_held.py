"""What a payload is to hold, as people write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wherry
from wherry.app.asked_filter import held_text


@pytest.mark.parametrize(
    ("pairs", "holds"),
    [
        (["a=1"], {"a": 1}),
        (["a=x y"], {"a": "x y"}),
        (['a="1"'], {"a": "1"}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (["a.b=true", "a.c=null"], {"a": {"b": True, "c": None}}),
        (['"a.b"."c=d"=[1, 2]'], {"a.b": {"c=d": [1, 2]}}),
        (["a=NaN"], {"a": "NaN"}),
        (["a=1e999"], {"a": "1e999"}),
        (['a={"x": 1, "x": 2}'], {"a": '{"x": 1, "x": 2}'}),
        (["a=1, "], {"a": "1, "}),
        (['a=1, "b": 2'], {"a": '1, "b": 2'}),
        (["a=1", "a.b=2"], {"a": {"b": 2}}),
        (["a=1\n2"], {"a": "1\n2"}),
    ],
)
def test_fields_and_their_values_are_read(pairs: list[str], holds: dict[str, Any]) -> None:
    assert json.loads(held_text(pairs)) == holds


@pytest.mark.parametrize("pair", ["", "=", "=1", "a", "a..b=1", ".a=1", "a.=1", '"a=1', "a=\0"])
def test_what_is_no_field_with_a_value_is_refused(pair: str) -> None:
    with pytest.raises(wherry.InvalidOption, match="payload"):
        held_text([pair])
