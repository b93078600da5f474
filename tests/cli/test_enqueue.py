"""`wherry enqueue` stores exactly what was written, or says what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]


def test_every_option_reaches_the_stored_task(cli: Cli, app: App) -> None:
    answer = cli(
        "enqueue", "shop.mail", '{"to": "a"}', "--queue", "mail", "--key", "order-1",
        "--key-ttl", "1h", "--priority", "7", "--run-after", "2037-01-31T08:00:00+02:00",
        "--max-attempts", "3", "--timeout", "1m30s", "--ttl", "1d", "--tag", "a", "--tag", "b",
        "--header", "traceparent=00-1=2", "--json",
    )  # fmt: skip

    assert answer.code == 0, answer.err
    task = app.get_task(answer.json["id"])
    assert task is not None
    assert (task.queue, task.type, task.payload) == ("mail", "shop.mail", {"to": "a"})
    assert (task.key, task.priority, task.max_attempts) == ("order-1", 7, 3)
    assert task.run_after == datetime(2037, 1, 31, 6, tzinfo=UTC)
    assert task.timeout_seconds == 90
    assert task.tags == ("a", "b")
    assert task.headers == {"traceparent": "00-1=2"}


def test_a_delay_makes_the_task_due_later(cli: Cli, app: App) -> None:
    answer = cli("enqueue", "shop.mail", "--delay", "2h", "--json")

    task = app.get_task(answer.json["id"])
    assert task is not None
    assert (task.run_after - task.created_at).total_seconds() == pytest.approx(7200, abs=1)


def test_zero_is_not_the_same_as_absent(cli: Cli, app: App) -> None:
    """CRON-14."""
    answer = cli("enqueue", "x", "--delay", "0", "--priority", "0", "--key", "k", "--key-ttl", "0")
    refused = cli("enqueue", "x", "--timeout", "0")

    assert answer.code == 0, answer.err
    assert refused.code == 2
    assert "longer than zero" in refused.err


@pytest.mark.parametrize("given", ["argument", "stdin", "file"])
def test_a_payload_comes_from_argument_stdin_or_file(
    cli: Cli, app: App, tmp_path: Path, given: str
) -> None:
    payload = {"n": 10**400, "f": 1e23, "s": 'Grüße \u202e \\ " 🚣', "z": -0.0}
    text = json.dumps(payload, ensure_ascii=False)
    file = tmp_path / "p.json"
    file.write_text(text, encoding="utf-8")
    argument = {"argument": text, "stdin": "-", "file": f"@{file}"}[given]

    answer = cli("enqueue", "shop.mail", argument, "--json", stdin=text.encode())

    assert answer.code == 0, answer.err
    task = app.get_task(answer.json["id"])
    assert task is not None
    assert task.payload == payload
    assert str(task.payload["z"]) == "-0.0"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{", "broken JSON"),
        ("[1]", "no JSON object but an array"),
        ("", "broken JSON"),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" twice'),
        ('{"a": NaN}', "NaN, which is no JSON"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": {"b": "\\u0000"}}', "NUL"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("\ufeff{}", "byte order mark"),
        ('{"a":' + "[" * 70 + "]" * 70 + "}", "64 levels"),
        ('{"a": 1' + "0" * 1001 + "}", "1,00"),
        ('{"a": "' + "x" * 1024 * 1024 + '"}', "1,048,576"),
    ],
)
def test_a_payload_that_could_not_come_back_is_refused(
    cli: Cli, sql: Callable[..., list[Any]], payload: str, reason: str
) -> None:
    """PAY-03, PAY-05: refused at the door with exit code 2, and nothing is stored."""
    answer = cli("enqueue", "shop.mail", "-", stdin=payload.encode("utf-8", "surrogatepass"))

    assert answer.code == 2
    assert reason in answer.err
    assert "Traceback" not in answer.err
    assert sql("select count(*) from wherry.live") == [(0,)]


def test_bytes_that_are_no_utf8_are_refused_by_their_place(cli: Cli) -> None:
    """PAY-17."""
    answer = cli("enqueue", "shop.mail", "-", stdin=b'{"a": "\xff"}')

    assert answer.code == 2
    assert "not UTF-8: byte 0xff at position 7" in answer.err


def test_a_file_that_is_not_there_is_named(cli: Cli) -> None:
    answer = cli("enqueue", "shop.mail", "@nowhere.json")

    assert answer.code == 2
    assert "'nowhere.json' cannot be read: No such file" in answer.err


def test_a_taken_key_is_told_and_stores_nothing(cli: Cli) -> None:
    first = cli("enqueue", "shop.mail", '{"a": 1}', "--key", "k", "--json")
    same = cli("enqueue", "shop.mail", '{"a": 1}', "--key", "k", "--json")
    other = cli("enqueue", "shop.mail", '{"a": 2}', "--key", "k")

    assert first.json == {"id": first.json["id"], "created": True, "payload_matches": True}
    assert same.json == {"id": first.json["id"], "created": False, "payload_matches": True}
    assert other.code == 0
    assert f"task {first.json['id']} has this key already, with ANOTHER" in other.out


@pytest.mark.parametrize(
    "name",
    ["a:b", "a/../b", "%2F", "?x#y", "sp ace", "--dsn", "-", "*x", "[bold]b[/bold]", "\u202ea"],
)
def test_names_and_keys_with_odd_characters_come_back_as_they_are(
    cli: Cli, app: App, name: str
) -> None:
    """IDM-10."""
    answer = cli("enqueue", "--queue", name, "--key", name, "--tag", name, "--json", "--", name)

    assert answer.code == 0, answer.err
    task = app.get_task(answer.json["id"])
    assert task is not None
    assert (task.queue, task.type, task.key, task.tags) == (name, name, name, (name,))
    found = cli("tasks", "list", "--queue", name, "--type", name, "--tag", name, "--json").json
    assert [each["id"] for each in found["tasks"]] == [task.id]


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--queue", "", "must not be empty"),
        ("--queue", "*", "all queues"),
        ("--queue", "a\nb", "control character"),
        ("--priority", "101", "between -100 and 100"),
        ("--priority", "high", "is no whole number"),
        ("--max-attempts", "0", "between 1 and"),
        ("--delay", "-5", "no length of time"),
        ("--delay", "200000d", "a hundred years"),
        ("--key", "k" * 513, "512"),
        ("--header", "alone", "NAME=VALUE"),
    ],
)
def test_an_option_out_of_range_is_refused(cli: Cli, option: str, value: str, reason: str) -> None:
    answer = cli("enqueue", "shop.mail", option, value)

    assert answer.code == 2
    assert reason in answer.err


def test_a_header_that_is_given_twice_is_refused(cli: Cli) -> None:
    """As a key that stands twice in the payload: one of them would be lost without a word."""
    answer = cli("enqueue", "x", "--header", "a=1", "--header", "b=1", "--header", "a=2")

    assert answer.code == 2
    assert "--header" in answer.err
    assert "'a' is given twice" in answer.err


def test_delay_and_run_after_exclude_one_another(cli: Cli) -> None:
    answer = cli("enqueue", "x", "--delay", "5", "--run-after", "2037-01-31T08:00:00Z")

    assert answer.code == 2
    assert "cannot be given together" in answer.err


def test_an_interpreter_that_is_set_to_few_digits_still_stores_long_integers(
    cli: Cli, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        answer = cli("enqueue", "x", '{"n": ' + "7" * 999 + "}", "--json")
        shown = cli("tasks", "show", str(answer.json["id"]), "--json")
    finally:
        sys.set_int_max_str_digits(limit)

    assert "7" * 999 in shown.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--delay", "100000w"), "delay=700000 days, 0:00:00: must be at most"),
        (
            ("--delay", "5m", "--run-after", "2027-01-01T00:00Z"),
            "run_after=2027-01-01 00:00:00+00:00: cannot be given together with delay",
        ),
        (("--run-after", "9999-12-31T23:59-23:00"), "run_after=9999-12-31 23:59:00-23:00: is"),
    ],
)
def test_a_time_that_cannot_be_is_shown_as_people_write_it(
    cli: Cli, words: tuple[str, ...], says: str
) -> None:
    answer = cli("enqueue", "a", *words)

    assert answer.code == 2
    assert says in answer.err
