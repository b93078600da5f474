"""Text of others is shown without driving the terminal, and JSON keeps every digit."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from wherry.cli.text import RawJSON, first_line, json_text, plain, rfc3339
from wherry.domain.counting import count
from wherry.domain.durations import span


def test_escape_sequences_are_written_out() -> None:
    assert plain("a\x1b[31mb\x07\x9b2J") == r"a\x1b[31mb\x07\x9b2J"


def test_characters_that_turn_the_order_of_letters_are_written_out() -> None:
    assert plain("invoice\u202efdp.exe") == r"invoice\u202efdp.exe"


def test_visible_text_of_any_script_stays_as_it_is() -> None:
    text = "Grüße, 東京 [bold]x[/bold] :smile: ¡ñ! 🚣"

    assert plain(text) == text


def test_line_ends_are_written_out_unless_lines_are_wanted() -> None:
    assert plain("a\nb") == r"a\x0ab"
    assert plain("a\r\n\tb\rc", lines=True) == "a\n    b\\x0dc"


def test_a_lone_surrogate_is_written_out() -> None:
    assert plain("\ud800") == r"\ud800"


def test_the_first_line_of_an_error_is_bounded() -> None:
    assert first_line("\n one\ntwo") == "one"
    assert first_line(None) == ""
    assert len(first_line("x" * 5000)) == 200


@pytest.mark.parametrize(
    "value",
    [
        {"id": 2**70, "none": None, "ok": True, "list": [1, [], {}], "text": 'é"\n\x1b\u202e'},
        [],
        {},
        "x",
    ],
)
def test_json_is_ascii_and_comes_back_equal(value: Any) -> None:
    text = json_text(value)

    assert text.isascii()
    assert text.isprintable() or "\n" in text
    assert json.loads(text) == value


def test_stored_json_keeps_every_digit_and_no_character_that_drives_a_terminal() -> None:
    stored = (
        '{"n": 1234567890.12345678901234567890, "e": 1e2, "t": "\x9b\u202e\U0001f6a3\x7f",\t"x": 1}'
    )

    text = json_text({"payload": RawJSON(stored)})

    assert "1234567890.12345678901234567890" in text
    assert "1e2" in text
    assert text.isascii()
    assert json.loads(text) == {"payload": json.loads(stored)}


def test_instants_are_in_utc_as_in_rfc_3339() -> None:
    there = datetime(2027, 1, 31, 8, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))

    assert rfc3339(there) == "2027-01-31T06:00:00.000005Z"
    assert json_text(datetime(2027, 1, 31, tzinfo=UTC)) == '"2027-01-31T00:00:00Z"'
    assert rfc3339(None) is None


def test_lengths_of_time_and_counts_read_as_people_say_them() -> None:
    assert [span(s) for s in (0.34, 45, 300, 7200, 86_400 * 3, -5)] == [
        "0.3 s",
        "45 s",
        "5 min",
        "2 h",
        "3 days",
        "0.0 s",
    ]
    assert (count(1, "task"), count(1234, "task")) == ("1 task", "1,234 tasks")
