"""`wherry migrate` and what it prints instead of migrating."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Answer
from wherry.migrations import grants
from wherry.migrations import sql as script
from wherry.migrations.files import read_folder

Cli = Callable[..., Answer]
NEW = ("--schema", "new one")
FILES = [file.name for file in read_folder()]


def test_migrate_applies_what_is_missing_once(cli: Cli) -> None:
    first = cli("migrate", *NEW)
    second = cli("migrate", *NEW)
    given = cli("migrate", *NEW, "--json").json

    assert [line.split(" (")[0] for line in first.out.splitlines()] == [
        f"applied {name}" for name in FILES
    ]
    assert second == Answer(0, "nothing to apply: the schema is up to date\n", "")
    assert given == {"schema": "new one", "dry_run": False, "applied": [], "lacking_rights": []}


def test_a_rehearsal_names_the_files_and_leaves_nothing(cli: Cli) -> None:
    shown = cli("migrate", *NEW, "--dry-run")
    given = cli("migrate", *NEW, "--dry-run", "--json").json

    assert f"{len(FILES)} migrations would be applied; nothing was changed" in shown.out
    assert [each["name"] for each in given["applied"]] == FILES
    assert given["dry_run"] is True


def test_status_tells_what_is_applied_and_what_is_pending(
    cli: Cli, sql: Callable[..., list[Any]]
) -> None:
    sql("delete from wherry.migration where version = 2")

    shown = cli("migrate", "--status")
    given = cli("migrate", "--status", "--json").json
    new = cli("migrate", "--status", *NEW)

    assert [row["state"] for row in given["migrations"]][:2] == ["applied", "pending"]
    assert shown.code == 0
    assert "1 migration pending: run wherry migrate" in shown.err
    assert new.out.count("pending") == len(FILES)


def test_the_script_is_printed_and_needs_no_database(plain_cli: Cli) -> None:
    assert plain_cli("migrate", "--sql", *NEW).out == script(schema="new one")
    assert plain_cli("migrate", "--sql", "--after", "1").out == script(after=1)


def test_grants_are_printed_for_each_kind_of_role(plain_cli: Cli) -> None:
    answer = plain_cli("migrate", "--grants", "worker=a,reader=b,c", "--grants", "worker=d=e")

    assert answer.out == grants(worker=["a", "d=e"], reader=["b,c"])


@pytest.mark.parametrize("asked", ["owner=a", "worker", "worker=", "worker=a,owner=b=", ""])
def test_grants_of_another_kind_are_refused(plain_cli: Cli, asked: str) -> None:
    if asked == "worker=a,owner=b=":
        # The comma is a part of the role's name there, odd as it is.
        assert '"a,owner=b="' in plain_cli("migrate", "--grants", asked).out
        return

    answer = plain_cli("migrate", "--grants", asked)

    assert answer.code == 2
    assert "worker=ROLE, server=ROLE, enqueuer=ROLE, reader=ROLE" in answer.err


@pytest.mark.parametrize(
    "options",
    [
        ["--status", "--sql"],
        ["--dry-run", "--grants", "worker=a"],
        ["--after", "1"],
        ["--sql", "--json"],
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    plain_cli: Cli, options: list[str]
) -> None:
    assert plain_cli("migrate", *options).code == 2


def test_somebody_elses_migration_is_waited_for_so_long_and_then_named(
    cli: Cli, sql: Callable[..., list[Any]]
) -> None:
    from wherry.migrations.session import turn_key

    sql(f"select pg_advisory_lock({turn_key('new one')})")

    answer = cli("migrate", *NEW, "--wait", "0.2s")

    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "0.2" in answer.err or "lock" in answer.err
