"""`wherry doctor`, and the start of workers and servers on a database that is not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.conftest import Answer, Running
from wherry import App

Cli = Callable[..., Answer]
Start = Callable[..., Running]


@pytest.fixture
def unsafe(dsn: str) -> str:
    """The tests' server, which syncs nothing, as if it did not say so itself."""
    return make_conninfo(dsn, options="-c wherry.allow_unsafe_database=off")


def test_a_database_without_a_problem_is_exit_code_0(cli: Cli) -> None:
    answer = cli("doctor")

    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("database wherry_test_")
    assert lines[1].startswith("warning  durability")
    assert lines[2].strip().startswith("→ set fsync = on")
    assert lines[-1].startswith("1 warning, ")
    assert "problem" not in answer.out


def test_quietly_it_says_only_what_is_not_fine(cli: Cli) -> None:
    answer = cli("doctor", "-q")

    verdicts = {line.split()[0] for line in answer.out.splitlines()[1:-1]}
    assert verdicts == {"warning", "→"}
    assert answer.out.splitlines()[-1].startswith("1 warning, ")


def test_problems_come_first_each_with_what_to_do(cli: Cli, app: App) -> None:
    app.enqueue("a.b")
    app.pause_queue("mail", reason="\x1b]0;owned\x07 the provider is down")
    app.enqueue("mail.send", queue="mail")

    answer = cli("doctor")

    assert answer.code == 1
    verdicts = [line.split()[0] for line in answer.out.splitlines()[1:-1] if line[0] != " "]
    assert verdicts == sorted(verdicts, key=["problem", "warning", "unknown", "ok"].index)
    assert verdicts[:3] == ["problem", "warning", "warning"]
    assert "→ start one: wherry worker APP" in answer.out
    assert r"\x1b]0;owned\x07 the provider is down" in answer.out
    assert "\x1b" not in answer.out
    assert answer.out.splitlines()[-1].startswith("1 problem, 2 warnings, ")


def test_programs_get_the_same_as_one_document(cli: Cli, app: App) -> None:
    app.enqueue("a.b")

    answer = cli("doctor", "--json")

    document = answer.json
    assert (answer.code, document["verdict"], document["schema"]) == (1, "problem", "wherry")
    [found] = [each for each in document["findings"] if each["verdict"] == "problem"]
    assert found == {
        "check": "workers",
        "verdict": "problem",
        "seen": "no worker is alive, and tasks are ready in 'default'",
        "advice": "start one: wherry worker APP --queues NAMES",
    }
    assert document["left_out"] == []


def test_a_schema_that_is_missing_is_a_problem_and_not_the_end(cli: Cli) -> None:
    answer = cli("doctor", "--schema", "nothing")

    assert answer.code == 1
    assert "run `wherry migrate`" in answer.out
    assert "not looked at without a schema: autovacuum, " in answer.out


def test_what_cannot_be_looked_at_is_told_by_the_exit_code(cli: Cli, dsn: str) -> None:
    away = cli("doctor", "--dsn", make_conninfo(dsn, host="/nowhere"))
    server = cli("doctor", "--dsn", "grpc://localhost:1")

    assert (away.code, server.code) == (3, 2)
    assert "cannot connect to the database" in away.err
    assert "this needs the database itself" in server.err
    assert away.out == server.out == ""


@pytest.mark.parametrize("verb", ["worker", "server", "up"])
def test_nothing_starts_on_a_database_that_would_lose_tasks(
    started: Start, shop: str, unsafe: str, verb: str
) -> None:
    arguments = {"worker": [shop], "server": ["--http", "127.0.0.1:0"], "up": [shop]}[verb]

    refused = started(verb, *arguments, "--dsn", unsafe)

    assert refused.end() == 2
    assert "fsync and full_page_writes are off" in refused.err
    assert "--allow-unsafe-database" in refused.err
    assert "Traceback" not in refused.err


def test_a_worker_that_is_allowed_to_starts_with_a_warning(
    started: Start, shop: str, unsafe: str, app: App
) -> None:
    app.enqueue("shop.mail", {"to": "a"})

    worker = started(
        *("worker", shop, "--dsn", unsafe, "--until-empty"),
        *("--allow-unsafe-database", "--processes", "2"),
    )

    assert worker.end(seconds=60) == 0
    assert worker.out == "mail to a\n"
    assert "THIS DATABASE IS UNSAFE" in worker.err


def test_a_read_only_server_is_exit_code_3_at_the_start(
    started: Start, shop: str, unsafe: str
) -> None:
    """MIG-13."""
    options = "-c wherry.allow_unsafe_database=off -c default_transaction_read_only=on"

    refused = started("worker", shop, "--dsn", make_conninfo(unsafe, options=options))

    assert refused.end() == 3
    assert "connected to a read-only server" in refused.err


def test_a_worker_without_a_database_takes_no_word_about_one(cli: Cli, shop: str) -> None:
    answer = cli("worker", shop, "--server", "grpc://localhost:1", "--allow-unsafe-database")

    assert answer.code == 2
    assert "--allow-unsafe-database is about a database" in answer.err


@pytest.mark.parametrize("columns", ["1", "20", "30"])
def test_on_a_narrow_terminal_it_still_says_what_is_wrong_and_what_to_do(
    cli: Cli, app: App, columns: str
) -> None:
    app.enqueue("a.b")

    # As at a terminal, for rich.
    answer = cli("doctor", "-q", FORCE_COLOR="1", NO_COLOR="1", COLUMNS=columns, TERM="xterm")

    told = "".join(answer.out.split())
    assert "noworkerisalive,andtasksarereadyin'default'" in told
    assert "→startone:wherryworkerAPP" in told
