"""`wherry tasks why`: what is said to people and to programs."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]


def test_why_says_what_holds_a_task_and_what_to_do(cli: Cli, app: App) -> None:
    id_ = app.enqueue("t", queue="mail").id
    app.pause_queue("mail", reason="a \x1b[31mflood")

    said = cli("tasks", "why", str(id_))

    assert said.code == 0
    assert said.out.splitlines()[0] == f"task {id_} is queued"
    assert r"queue_paused: the queue mail was paused" in said.out
    assert r"a \x1b[31mflood" in said.out
    assert "wherry queues resume mail" in said.out
    document = cli("tasks", "why", str(id_), "--json").json
    assert list(document) == ["id", "state", "queue", "at", "reasons"]
    assert [reason["code"] for reason in document["reasons"]] == ["queue_paused", "no_worker"]


def test_why_of_nobody_is_an_error_with_what_may_have_been(cli: Cli) -> None:
    said = cli("tasks", "why", "77")

    assert said.code == 1
    assert "retention" in said.err
    assert "77" in said.err
    assert cli("tasks", "why", "77", "--json").json["state"] is None
