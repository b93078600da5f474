"""Exit codes and one-line errors: what is wrong, without a traceback, told by a number too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from psycopg.conninfo import make_conninfo

import wherry
from tests.cli.conftest import Answer
from wherry import App, errors
from wherry.cli import main
from wherry.cli.entry import exit_code

Cli = Callable[..., Answer]


def test_the_version_is_the_packages(plain_cli: Cli) -> None:
    assert plain_cli("--version").out == f"wherry {wherry.__version__}\n"


def test_help_is_there_for_every_verb(plain_cli: Cli) -> None:
    for verb in ([], ["up"], ["worker"], ["tasks", "cancel"], ["dead", "requeue"]):
        answer = plain_cli(*verb, "--help")

        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("Usage: ")


def test_help_imports_neither_driver_nor_app_nor_rich() -> None:
    code = (
        "import sys; from wherry.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'psycopg', 'rich', 'asyncio', 'wherry.app', 'wherry.embedded'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stderr == "[]\n"


def test_python_m_wherry_is_wherry() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wherry", "tasks", "list", "--nope"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("Usage: wherry tasks list ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Unavailable("gone"), 3),
        (errors.ReadOnly("standby"), 3),
        (errors.EmbeddedStartFailed("no room"), 3),
        (errors.EmbeddedUnavailable(["nowhere"]), 2),
        (errors.DSNMissing(), 2),
        (errors.UnknownImport("shop", "no"), 2),
        (errors.SchemaMissing("wherry"), 2),
        (errors.MigrationEdited("edited"), 2),
        (errors.MigrationFailed("failed", name="0009_x"), 1),
        (errors.MigrationLocked("locked", name="0009_x", holders=[]), 1),
        (errors.InvalidPayload("$", "no"), 2),
        (errors.UnknownType("x", known=[]), 2),
        (errors.NotFound(1), 1),
        (errors.DecodeError("no"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_a_verb_of_a_group_is_told_its_place(plain_cli: Cli) -> None:
    inside = plain_cli("why", "3")
    unknown = plain_cli("hwy", "3")

    assert (inside.code, unknown.code) == (2, 2)
    assert "did you mean `wherry tasks why`?" in inside.err
    assert "wherry tasks" not in unknown.err


def test_no_database_is_an_error_that_names_the_ways(plain_cli: Cli) -> None:
    answer = plain_cli("tasks", "list")

    assert answer.code == 2
    assert answer.out == ""
    for way in ("WHERRY_DSN", "--dsn", "embedded:"):
        assert way in answer.err
    assert answer.err.count("\n") == 1


def test_the_option_wins_over_the_environment(cli: Cli, app: App, dsn: str) -> None:
    app.enqueue("a")

    answer = cli("tasks", "list", "--json", "--dsn", dsn, WHERRY_DSN="host=nowhere.invalid")

    assert len(answer.json["tasks"]) == 1


@pytest.mark.parametrize("option", ["--dsn", "--schema"])
def test_an_empty_option_is_not_taken_for_an_absent_one(cli: Cli, option: str) -> None:
    answer = cli("tasks", "list", option, "")

    assert answer.code == 2
    assert "it is empty" in answer.err


def test_a_dsn_that_cannot_be_read_does_not_show_its_password(cli: Cli) -> None:
    answer = cli("tasks", "list", "--dsn", "postgres//user:s3cret@host/shop")

    assert answer.code == 2
    assert "the DSN cannot be read" in answer.err
    assert "s3cret" not in answer.err


def test_a_database_out_of_reach_is_told_with_its_reason_at_once(cli: Cli) -> None:
    answer = cli("tasks", "list", "--dsn", "host=127.0.0.1 port=1 dbname=shop")

    assert (answer.code, answer.out) == (3, "")
    assert "onnection refused" in answer.err
    assert answer.err.count("\n") == 1


FOREIGN = "drop schema wherry cascade; create schema wherry; create table wherry.migration (x int)"
TOO_OLD = "delete from wherry.migration where version > 1"


@pytest.mark.parametrize(
    ("prepare", "what_to_do"),
    [
        ("drop schema wherry cascade", "run `wherry migrate`"),
        (FOREIGN, "Choose another schema"),
        (TOO_OLD, "run `wherry migrate`"),
        ("update wherry.migration set checksum = repeat('0', 64)", "reinstall"),
    ],
)
def test_a_schema_that_does_not_fit_is_one_line_that_says_what_to_do(
    cli: Cli, sql: Callable[..., list[Any]], shop: str, prepare: str, what_to_do: str
) -> None:
    """DEP-06, MIG-11: missing, another product's, too old, edited; for a look and for a worker."""
    sql(prepare)

    for verb in (["tasks", "list"], ["worker", shop]):
        answer = cli(*verb)

        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("Error: ")
        assert answer.err.count("\n") == 1
        assert what_to_do in answer.err


def test_a_read_only_server_is_read_from_and_refuses_the_rest(
    cli: Cli, app: App, dsn: str, dead: Callable[..., list[int]]
) -> None:
    """MIG-13."""
    [id] = dead()
    standby = make_conninfo(dsn, options="-c default_transaction_read_only=on")

    listed = cli("dead", "list", "--json", "--dsn", standby)
    refused = [
        cli("enqueue", "a", "--dsn", standby),
        cli("dead", "requeue", str(id), "--dsn", standby),
        cli("migrate", "--dsn", standby, "--schema", "other"),
    ]

    assert [task["id"] for task in listed.json["tasks"]] == [id]
    assert [answer.code for answer in refused] == [3] * 3
    assert all("read-only" in answer.err for answer in refused)


def test_a_right_that_is_missing_is_a_matter_of_the_set_up(
    cli: Cli, dsn: str, sql: Callable[..., list[Any]]
) -> None:
    sql("create role wherry_cli_nobody login")
    try:
        answer = cli("tasks", "list", "--dsn", make_conninfo(dsn, user="wherry_cli_nobody"))
    finally:
        sql("drop role wherry_cli_nobody")

    assert answer.code == 2
    assert answer.err.startswith("Error: ")
    assert "Traceback" not in answer.err


def test_verbose_shows_where_an_error_came_from(cli: Cli) -> None:
    assert "Traceback" not in cli("tasks", "show", "1").err
    assert "Traceback" in cli("tasks", "show", "1", "-v").err


@pytest.mark.parametrize("option", ["--dsn", "--json", "-v", "--schema"])
def test_an_option_before_the_verb_is_told_its_place(plain_cli: Cli, option: str) -> None:
    answer = plain_cli(option, "x", "tasks", "list")

    assert answer.code == 2
    assert f"{option} goes behind the verb" in answer.err


def test_ctrl_c_is_said_in_a_word(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(App, "list_queues", interrupted)

    answer = cli("queues", "list")

    assert (answer.code, answer.err) == (130, "interrupted\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_ends_the_listing_quietly(
    app: App, dsn: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLI-07."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    app.enqueue_many([{"type": "a", "payload": {"x": "y" * 1000}} for _ in range(1000)])
    command = f'{sys.executable} -m wherry tasks list --limit 1000 --json --dsn "{dsn}" | head -1'

    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "{\n141\n"
    assert done.stderr == ""


def test_a_terminal_that_cannot_show_a_character_shows_an_escape(app: App, dsn: str) -> None:
    app.enqueue("größe")

    done = subprocess.run(
        [sys.executable, "-m", "wherry", "tasks", "list", "--dsn", dsn],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert rb"gr\xf6\xdfe" in done.stdout


def test_a_schema_name_is_only_ever_a_name(cli: Cli, sql: Callable[..., list[Any]]) -> None:
    """MIG-07."""
    schema = "x'; drop schema wherry cascade; --\"%s :a"

    migrated = cli("migrate", "--schema", schema)
    stored = cli("enqueue", "a", "--schema", schema, "--json")

    assert (migrated.code, stored.code) == (0, 0), migrated.err + stored.err
    assert cli("tasks", "list", "--schema", schema, "--json").json["tasks"][0]["type"] == "a"
    assert sql("select count(*) from wherry.live") == [(0,)]


def test_a_schema_name_that_postgresql_would_cut_is_refused(cli: Cli) -> None:
    for verb in (["tasks", "list"], ["migrate"], ["migrate", "--sql"]):
        answer = cli(*verb, "--schema", "x" * 64)

        assert answer.code == 2
        assert "64 bytes long" in answer.err


def test_main_is_the_click_command() -> None:
    assert sorted(main.commands) == [
        "audit", "bench", "cron", "dead", "doctor", "enqueue", "migrate", "queues", "server",
        "tasks", "token", "top", "types", "up", "worker", "workers",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["tasks", "list", "--queue", "ma\udcffil"], "'--queue'"),
        (["audit", "list", "--actor=\udcffma"], "'--actor'"),
        (["token", "revoke", "--", "\udcff\udcfe"], "ID_OR_NAME"),
        (["enqueue", "t", "--header", "a=\udcff"], "'--header'"),
        (["queues", "list", "--dsn", "host=\udcff"], "'--dsn'"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(
    cli: Cli, arguments: list[str], place: str
) -> None:
    refused = cli(*arguments)

    assert (refused.code, place in refused.err, "Traceback" in refused.err) == (2, True, False)
    assert "\\udcff" in refused.err


def test_every_verb_refuses_what_is_no_text() -> None:
    def parameters(command: click.Command) -> Iterator[tuple[click.Command, click.Parameter]]:
        # Benchmarks have their own only when they are asked for them.
        command.get_params(click.Context(command))
        yield from ((command, each) for each in command.params)
        for below in command.commands.values() if isinstance(command, click.Group) else ():
            yield from parameters(below)

    kept = [
        (command.name, parameter.name)
        for command, parameter in parameters(main)
        if not refuses(command, parameter)
    ]

    assert kept == []


def refuses(command: click.Command, parameter: click.Parameter) -> bool:
    try:
        assert parameter.callback is not None
        parameter.callback(click.Context(command), parameter, "\udcff")
    except click.BadParameter as error:
        return "is no text" in error.message
    return False
