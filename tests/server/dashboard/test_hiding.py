"""What an operator hides is not shown, and what is shown is what was stored."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from wherry.errors import ConfigError
from wherry.server.caller import ANYBODY
from wherry.server.dashboard.asking import Visit
from wherry.server.dashboard.hiding import HIDDEN, Rules, shown_json
from wherry.server.dashboard.rounds import Rounds
from wherry.server.dashboard.shared import Shared
from wherry.server.service import Service


def shown(text: str, *rules: str, of: str = "payload") -> str:
    return shown_json(text, of=of, rules=Rules.of(rules))


@pytest.mark.parametrize(
    "number",
    ["9007199254740993", "2147483650", "1e400", "0.1000000000000000055", "-0", "1" * 300, "1E+2"],
)
def test_a_number_is_shown_digit_by_digit(number: str) -> None:
    assert shown(f'{{"n":{number}}}') == f'{{\n  "n": {number}\n}}'


@pytest.mark.parametrize(
    "text",
    ['{"a":[1,{"b":null}],"c":true,"d":"ü"}', "[]", "{}", '"x"', "null", '{"a":{},"b":[]}'],
)
def test_what_is_shown_is_the_same_value(text: str) -> None:
    assert json.loads(shown(text)) == json.loads(text)


def test_a_key_that_stands_twice_is_shown_twice() -> None:
    assert shown('{"a":1,"a":2}').count('"a"') == 2


def test_half_a_surrogate_pair_can_be_sent_to_a_browser() -> None:
    assert shown('{"a":"\\ud800"}').encode() == b'{\n  "a": "\\ud800"\n}'


@pytest.mark.parametrize(
    ("rule", "hides"),
    [
        ("payload.password", {"password"}),
        ("payload.card", {"card"}),
        ("payload.card.number", {"number"}),
        ("payload.*.number", {"number"}),
        ("payload.**.secret", {"secret"}),
        ("payload.list.*.secret", {"secret"}),
        ("payload.list.0", {"list"}),
        ("payload.pass*", {"password"}),
        ("result.password", set[str]()),
    ],
)
def test_a_rule_hides_what_stands_at_its_path(rule: str, hides: set[str]) -> None:
    stored = {
        "password": "1-password",
        "card": {"number": "2-number", "holder": "3-holder"},
        "list": [{"secret": "4-secret"}],
    }

    text = shown(json.dumps(stored), rule)

    values = ("1-password", "2-number", "3-holder", "4-secret")
    hidden = {value for value in values if value not in text}
    expected = {
        "password": {"1-password"},
        "card": {"2-number", "3-holder"},
        "number": {"2-number"},
        "secret": {"4-secret"},
        "list": {"4-secret"},
    }
    assert hidden == set().union(*(expected[name] for name in hides))
    assert (HIDDEN in text) == bool(hides)


def test_a_name_with_a_dot_is_one_name() -> None:
    assert "1" in shown('{"a.b":1}', "payload.a.b")


def test_what_cannot_be_read_is_hidden_if_there_is_a_rule_for_it() -> None:
    assert shown("{not json secret", of="result") == "{not json secret"
    assert "secret" not in shown("{not json secret", "result.x", of="result")
    assert "secret" in shown("{not json secret", "payload.x", of="result")


def test_what_is_nested_too_deep_is_hidden_if_there_is_a_rule_for_it() -> None:
    deep = "[" * sys.getrecursionlimit() * 2 + "]" * sys.getrecursionlimit() * 2

    assert shown(deep) == deep
    assert HIDDEN in shown(deep, "payload.x")


@pytest.mark.parametrize(
    "rule", ["", "payload", "password", "payload.", ".x", "task.x", "payload..x"]
)
def test_a_rule_that_hides_nothing_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="nothing to hide"):
        Rules.of([rule])


async def test_a_large_text_is_written_while_others_are_answered(service: Service) -> None:
    visit = Visit(
        name="task", caller=ANYBODY, service=service, shared=Shared(), rounds=Rounds(service.app)
    )
    text = f'{{"a": [{"1, " * 50_000}1]}}'

    writing = asyncio.create_task(visit.json(text, of="payload"))
    turns = 0
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)

    # One turn is what it takes that lets nobody else have any.
    assert turns > 1
    assert await writing == shown_json(text, of="payload", rules=Rules())
