"""`wherry token`: shown once, on stdout alone, and never to be found anywhere afterwards."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable

import psycopg
import pytest

from tests.cli.conftest import Answer
from wherry import App
from wherry.domain.token import read_token
from wherry.testing import Clock

Cli = Callable[..., Answer]
TOKEN = re.compile(r"wherry_[a-z2-7]{12}_[a-z2-7]{52}\n")
MAIL = ("--right", "enqueue", "--right", "work", "--queue", "mail.*")


def test_a_new_token_stands_on_stdout_alone(cli: Cli) -> None:
    answer = cli("token", "create", "--name", "shop", *MAIL, "--expires-in", "30d")

    assert answer.code == 0
    assert TOKEN.fullmatch(answer.out)
    assert "shop" in answer.err
    assert "enqueue, work on mail.*" in answer.err
    assert "not shown again" in answer.err
    assert answer.out.strip() not in answer.err


def test_a_quiet_create_says_nothing_but_the_token(cli: Cli) -> None:
    answer = cli("token", "create", "--name", "shop", *MAIL, "-q")

    assert TOKEN.fullmatch(answer.out)
    assert answer.err == ""


def test_a_new_token_as_json_says_all_that_is_known(cli: Cli) -> None:
    made = cli("token", "create", "--name", "shop", *MAIL, "--json").json

    assert TOKEN.fullmatch(made.pop("token") + "\n")
    assert made["rights"] == ["enqueue", "work"]
    assert made["queues"] == ["mail.*"]
    assert made["expires_at"] is None
    assert made["state"] == "live"
    assert re.fullmatch(r"cli:.+@.+", made["created_by"])
    assert "hash" not in made


def test_the_database_holds_no_secret(cli: Cli, dsn: str) -> None:
    text = cli("token", "create", "--name", "shop", *MAIL).out.strip()
    secret = text.rpartition("_")[2]
    token = read_token(text)
    assert token is not None

    with psycopg.connect(dsn) as connection:
        [[id, hash, whole]] = connection.execute(
            "select id, hash, token::text from wherry.token as token"
        ).fetchall()
        audit = connection.execute("select audit::text from wherry.audit as audit").fetchall()

    assert (id, bytes(hash)) == (token.id, token.hash)
    assert secret not in whole
    assert len(audit) == 1
    assert secret not in str(audit)


def test_tokens_are_listed_without_secret_or_hash(cli: Cli, clock: Clock) -> None:
    text = cli("token", "create", "--name", "first", *MAIL).out.strip()
    clock.advance(seconds=1)
    cli("token", "create", "--name", "second", "--right", "read", "--queue", "*")

    listed = cli("token", "list", "--json")
    table = cli("token", "list")

    assert [each["name"] for each in listed.json["tokens"]] == ["second", "first"]
    assert listed.json["tokens"][1]["id"] == text.split("_")[1]
    assert "hash" not in listed.out
    assert text.split("_")[2] not in listed.out + table.out
    assert "mail.*" in table.out
    assert "never" in table.out


def test_what_is_over_is_listed_only_if_asked_for(cli: Cli, clock: Clock) -> None:
    cli("token", "create", "--name", "brief", *MAIL, "--expires-in", "1h")
    cli("token", "create", "--name", "gone", *MAIL)
    cli("token", "create", "--name", "stays", *MAIL)
    cli("token", "revoke", "gone")
    clock.advance(hours=2)

    live = cli("token", "list", "--json").json["tokens"]
    everything = cli("token", "list", "--all", "--json").json["tokens"]

    assert [each["name"] for each in live] == ["stays"]
    assert {each["name"]: each["state"] for each in everything} == {
        "stays": "live",
        "gone": "revoked",
        "brief": "expired",
    }


def test_no_tokens_is_said_on_stderr(cli: Cli) -> None:
    answer = cli("token", "list")

    assert (answer.code, answer.out, answer.err) == (0, "", "no tokens\n")
    assert cli("token", "list", "--json").json == {"tokens": []}


def test_a_token_is_revoked_by_name_by_id_or_by_itself(cli: Cli) -> None:
    texts = {
        name: cli("token", "create", "--name", name, *MAIL).out.strip() for name in ("a", "b", "c")
    }

    answers = [
        cli("token", "revoke", "a"),
        cli("token", "revoke", texts["b"].split("_")[1]),
        cli("token", "revoke", texts["c"]),
    ]

    assert [answer.code for answer in answers] == [0, 0, 0]
    assert texts["c"] not in answers[2].out + answers[2].err
    assert cli("token", "list", "--json").json == {"tokens": []}


def test_revoking_twice_is_no_error_and_says_so(cli: Cli) -> None:
    cli("token", "create", "--name", "a", *MAIL)
    first = cli("token", "revoke", "a", "--json").json

    again = cli("token", "revoke", "a", "--json").json
    told = cli("token", "revoke", "a")

    assert first["revoked"] is True
    assert again["revoked"] is False
    assert again["revoked_at"] == first["revoked_at"]
    assert (told.code, "before" in told.out) == (0, True)


def test_a_name_is_taken_until_its_token_is_revoked(cli: Cli, clock: Clock) -> None:
    cli("token", "create", "--name", "shop", *MAIL, "--expires-in", "1s")
    clock.advance(minutes=1)

    refused = cli("token", "create", "--name", "shop", *MAIL)
    cli("token", "revoke", "shop")
    made = cli("token", "create", "--name", "shop", *MAIL)

    assert (refused.code, refused.out) == (1, "")
    assert "'shop'" in refused.err
    assert made.code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--name", "a", "--right", "work"),
        ("--name", "a", "--queue", "*"),
        ("--right", "work", "--queue", "*"),
        ("--name", "a", "--right", "root", "--queue", "*"),
        ("--name", "", "--right", "work", "--queue", "*"),
        ("--name", "a", "--right", "work", "--queue", ""),
        ("--name", "a\nb", "--right", "work", "--queue", "*"),
        ("--name", "a", "--right", "work", "--queue", "x" * 256),
        ("--name", "a", "--right", "work", "--queue", "*", "--expires-in", "0s"),
        ("--name", "wherry_abc", "--right", "work", "--queue", "*"),
        ("--name", "cli:root@db", "--right", "work", "--queue", "*"),
        ("--name", "anonymous", "--right", "work", "--queue", "*"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(cli: Cli, options: tuple[str, ...]) -> None:
    answer = cli("token", "create", *options)

    assert (answer.code, answer.out) == (2, "")
    assert cli("token", "list", "--all", "--json").json == {"tokens": []}


def test_an_unknown_token_is_an_error_and_a_mistyped_one_is_not_repeated(cli: Cli) -> None:
    unknown = cli("token", "revoke", "nobody")
    mistyped = cli("token", "revoke", "wherry_abc_somesecret")

    assert (unknown.code, "'nobody'" in unknown.err) == (1, True)
    assert mistyped.code == 2
    assert "somesecret" not in mistyped.out + mistyped.err
    assert "somesecret" not in json.dumps(cli("audit", "list", "--json").json)


def test_a_name_that_no_token_can_have_is_no_crash(cli: Cli) -> None:
    refused = cli("token", "revoke", "--", "\udcff\udcfe")

    assert (refused.code, "lone surrogate" in refused.err) == (2, True)


def test_what_is_written_in_a_name_is_made_harmless(cli: Cli, app: App) -> None:
    cli("token", "create", "--name", "\u202ered", *MAIL)

    assert "\u202e" not in cli("token", "list").out
    assert "\u202e" not in cli("token", "revoke", "\u202ered").out


def test_no_log_line_holds_the_secret(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    text = cli("token", "create", "--name", "shop", *MAIL, "-vv").out.strip()
    cli("token", "revoke", text, "-vv")

    assert text.split("_")[2] not in caplog.text
