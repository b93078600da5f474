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
    assert said.err.startswith("Error: task 77 is not in the database: it was purged, or ")
    assert len(said.err.splitlines()) == 1
    assert cli("tasks", "why", "77", "--json").json["state"] is None


def test_tasks_are_counted_up_to_a_number(cli: Cli, app: App) -> None:
    for _ in range(3):
        app.enqueue("t", {"customer": {"id": 42}})
    app.enqueue("t", {"customer": {"id": "42"}})

    assert cli("tasks", "count").out == "4\n"
    assert cli("tasks", "count", "--most", "3").out == "3+\n"
    number = cli("tasks", "count", "--payload", "customer.id=42", "--json")
    assert number.json == {"tasks": 3, "capped": False}
    assert cli("tasks", "count", "--payload", 'customer.id="42"').out == "1\n"


def test_pages_lead_back(cli: Cli, app: App) -> None:
    for _ in range(3):
        app.enqueue("t")
    first = cli("tasks", "list", "--limit", "2", "--json").json
    second = cli("tasks", "list", "--limit", "2", "--after", str(first["after"]), "--json").json

    back = cli("tasks", "list", "--limit", "2", "--before", str(second["before"]))

    assert back.code == 0
    assert all(str(task["id"]) in back.out for task in first["tasks"])
    assert cli("tasks", "list", "--after", "1", "--before", "2").code == 2


def test_tasks_are_listed_by_what_is_known_of_them(cli: Cli, app: App) -> None:
    id_ = app.enqueue("t", {"a.b": "x y"}, key="k").id
    app.enqueue("t")

    def listed(*options: str) -> list[int]:
        return [task["id"] for task in cli("tasks", "list", *options, "--json").json["tasks"]]

    assert listed("--key", "k") == [id_]
    assert listed("--payload", '"a.b"=x y') == [id_]
    assert listed("--worker", "w") == []
    assert listed("--finished-after", "2020-01-01T00:00:00Z") == []
    assert len(listed("--created-after", "2020-01-01T00:00:00Z")) == 2
    assert cli("tasks", "list", "--payload", "no sign").code == 2


def test_dead_tasks_are_grouped_and_a_group_is_requeued_at_a_rate(cli: Cli, app: App) -> None:
    for n in range(3):
        app.enqueue("t", max_attempts=1)
        app.fail(app.lease(worker="w")[0], f"no order {n}")
    other = app.enqueue("t", max_attempts=1).id
    app.fail(app.lease(worker="w")[0], "something else")

    shown = cli("dead", "groups")

    assert "no order 2" in shown.out
    [group, _] = cli("dead", "groups", "--json").json["groups"]
    assert group["tasks"] == 3
    chosen = ("--fingerprint", group["fingerprint"])
    done = cli("dead", "requeue", *chosen, "--per-second", "0.01", "--yes")
    assert (done.code, done.out) == (0, "requeued 3 tasks\n")
    assert len(app.lease(worker="w", max_tasks=9)) == 1
    assert app.get_task(other).state == "dead"  # type: ignore[union-attr]
    assert cli("dead", "groups", "--queue", "none").err == "no dead tasks\n"
