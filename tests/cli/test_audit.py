"""`wherry audit`, and that what the command line changes is written down in it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Answer
from wherry import App
from wherry.commands.workers import BeatWorker

Cli = Callable[..., Answer]


def rows(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("audit", "list", "--json").json["audit"]
    return found


def dead_task(app: App) -> int:
    id = app.enqueue("t").id
    [lease] = app.lease(worker="w")
    app.fail(lease, "boom", retry=False)
    return id


def test_a_cancel_is_written_down_with_who_what_and_why(cli: Cli, app: App) -> None:
    ids = [app.enqueue("t").id for _ in range(3)]

    cli("tasks", "cancel", *map(str, ids[:2]), "--reason", "a mistake")

    [row] = rows(cli)
    assert row["action"] == "cancel_tasks"
    assert row["target"] == {"ids": ids[:2]}
    assert (row["count"], row["reason"], row["peer"]) == (2, "a mistake", None)
    assert re.fullmatch(r"cli:.+@.+", row["actor"])


def test_every_step_of_a_bulk_verb_has_its_row(cli: Cli, app: App) -> None:
    app.enqueue_many([{"type": "t"}] * 1200)

    cli("tasks", "cancel", "--type", "t", "--yes")

    assert [row["count"] for row in rows(cli)] == [200, 500, 500]


def test_requeuing_and_purging_the_dead_is_written_down(cli: Cli, app: App) -> None:
    first, second = dead_task(app), dead_task(app)

    cli("dead", "requeue", str(first))
    cli("dead", "purge", "--all", "--yes")

    assert [(row["action"], row["target"], row["count"]) for row in rows(cli)] == [
        ("purge_tasks", {"ids": [second]}, 1),
        ("requeue_tasks", {"ids": [first]}, 1),
    ]


def test_what_changed_nothing_is_written_down_too_and_a_dry_run_is_not(cli: Cli, app: App) -> None:
    id = app.enqueue("t").id
    app.cancel(id)

    cli("tasks", "cancel", str(id), "--dry-run")
    cli("tasks", "cancel", str(id))

    assert [row["count"] for row in rows(cli)] == [0]


def test_what_a_program_does_with_its_own_tasks_is_nobodys_business(cli: Cli, app: App) -> None:
    app.cancel(app.enqueue("t").id)
    cli("enqueue", "t")
    cli("tasks", "list")
    cli("queues", "list")

    assert rows(cli) == []


def test_tokens_are_made_and_revoked_in_sight(cli: Cli) -> None:
    made = cli("token", "create", "--name", "a", "--right", "work", "--queue", "*", "--json").json
    cli("token", "create", "--name", "a", "--right", "work", "--queue", "*")
    cli("token", "revoke", "a")
    cli("token", "revoke", "a")

    again, revoked, refused, created = rows(cli)
    assert created["action"] == "create_token"
    assert created["target"]["id"] == made["id"]
    assert created["target"]["rights"] == ["work"]
    assert [each["count"] for each in (created, refused, revoked, again)] == [1, 0, 1, 0]
    assert revoked["action"] == "revoke_token"
    assert revoked["target"] == {"named": "a"}


def test_queues_are_paused_and_resumed_in_sight(cli: Cli) -> None:
    cli("queues", "pause", "mail", "--reason", "a flood")
    cli("queues", "pause", "mail")
    cli("queues", "resume", "mail")

    assert [(row["action"], row["target"], row["count"], row["reason"]) for row in rows(cli)] == [
        ("resume_queue", {"queue": "mail"}, 1, None),
        ("pause_queue", {"queue": "mail"}, 0, None),
        ("pause_queue", {"queue": "mail"}, 1, "a flood"),
    ]


def test_workers_are_directed_in_sight(cli: Cli, app: App) -> None:
    beat = BeatWorker(
        instance=str(uuid.uuid4()), name="w", host="h", pid=1, queues=None, types=("t",)
    )
    app.carry(beat)

    cli("workers", "drain", "w", "--reason", "a new version")

    [row] = rows(cli)
    assert (row["action"], row["count"], row["reason"]) == ("direct_workers", 1, "a new version")
    assert row["target"] == {"names": ["w"], "directive": "drain"}


def test_the_audit_is_listed_page_by_page_and_narrowed(cli: Cli, app: App) -> None:
    ids = [app.enqueue("t").id for _ in range(3)]
    for id in ids:
        cli("tasks", "cancel", str(id))
    cli("token", "revoke", "nobody")

    first = cli("audit", "list", "--action", "cancel_tasks", "--limit", "2", "--json").json
    second = cli(
        "audit", "list", "--action", "cancel_tasks", "--after", str(first["after"]), "--json"
    ).json

    assert [row["target"]["ids"] for row in first["audit"]] == [[ids[2]], [ids[1]]]
    assert [row["target"]["ids"] for row in second["audit"]] == [[ids[0]]]
    assert second["after"] is None
    assert cli("audit", "list", "--actor", "somebody", "--json").json["audit"] == []
    assert "--after" in cli("audit", "list", "--limit", "2").err


def test_the_table_is_short_and_harmless(cli: Cli, app: App) -> None:
    ids = [app.enqueue("t").id for _ in range(7)]
    cli("tasks", "cancel", *map(str, ids), "--reason", "\x1b[31mred")

    table = cli("audit", "list").out

    assert "cancel_tasks" in table
    assert "(2 more)" in table
    assert "\x1b" not in table
    assert "\\x1b[31mred" in table


def test_an_empty_audit_says_so(cli: Cli) -> None:
    answer = cli("audit", "list")

    assert (answer.code, answer.out, answer.err) == (0, "", "the audit is empty\n")


def test_a_user_without_a_name_is_written_down_as_a_number(
    cli: Cli, app: App, monkeypatch: Any
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nameless)
    cli("tasks", "cancel", str(app.enqueue("t").id))

    [row] = rows(cli)
    assert re.fullmatch(r"cli:\d+@.+", row["actor"])


def test_a_change_that_cannot_be_written_down_does_not_happen(cli: Cli, app: App) -> None:
    id = app.enqueue("t").id
    with psycopg.connect(app.dsn) as owner:
        owner.execute("alter table wherry.audit add constraint never check (false)")

    answer = cli("tasks", "cancel", str(id))

    assert answer.code != 0
    task = app.get_task(id)
    assert task is not None
    assert task.state == "queued"


@pytest.mark.parametrize("option", ["--actor", "--action"])
def test_a_name_that_nobody_can_have_is_no_crash(cli: Cli, option: str) -> None:
    refused = cli("audit", "list", f"{option}=\udcff\udcfe")

    assert (refused.code, "lone surrogate" in refused.err) == (2, True)
