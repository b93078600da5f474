"""`wherry queues pause` and `wherry workers`: what they change, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.cli.conftest import Answer
from wherry import App, Directive
from wherry.commands.workers import BeatWorker
from wherry.testing import Clock

Cli = Callable[..., Answer]


def beat(app: App, n: int, name: str) -> Directive:
    return app.carry(
        BeatWorker(
            instance=str(UUID(int=n)), name=name, host="h", pid=n, queues=("a",), types=("t", "u")
        )
    )


def test_a_queue_is_paused_and_resumed(cli: Cli, app: App) -> None:
    app.enqueue("t", queue="mail")

    paused = cli("queues", "pause", "mail", "--reason", "a flood")

    assert (paused.code, paused.out) == (0, "paused mail\n")
    assert app.lease(worker="w", queues=["mail"]) == []
    again = cli("queues", "pause", "mail", "--json")
    assert (again.code, again.json) == (0, {"queue": "mail", "changed": False})
    resumed = cli("queues", "resume", "mail", "--json")
    assert resumed.json == {"queue": "mail", "changed": True}
    assert len(app.lease(worker="w", queues=["mail"])) == 1
    assert cli("queues", "resume", "mail").out == "mail was not paused\n"


def test_a_pause_is_listed_with_who_and_why(cli: Cli, app: App) -> None:
    app.enqueue("t", queue="mail")
    assert "paused" not in cli("queues", "list").out
    cli("queues", "pause", "empty", "--reason", "a \x1b[31mflood")

    listed = cli("queues", "list")

    assert "by cli:" in listed.out
    assert r"a \x1b[31mflood" in listed.out
    empty, mail = cli("queues", "list", "--json").json["queues"]
    assert (empty["queue"], empty["ready"], empty["pause_reason"]) == (
        "empty", 0, "a \x1b[31mflood",
    )  # fmt: skip
    assert empty["paused_by"].startswith("cli:")
    assert (mail["queue"], mail["paused_at"]) == ("mail", None)


@pytest.mark.parametrize("name", ["", "*", "a\nb"])
def test_a_queue_that_cannot_be_is_refused(cli: Cli, name: str) -> None:
    assert cli("queues", "pause", name).code == 2


def test_workers_are_listed(cli: Cli, app: App, clock: Clock) -> None:
    beat(app, 1, "silent")
    clock.advance(minutes=5)
    beat(app, 2, "box")

    lines = cli("workers", "list").out.splitlines()

    assert lines[0].split() == ["worker", "state", "last", "beat", "host", "pid", "queues", "types"]
    assert [line.split()[:2] for line in lines[1:]] == [["box", "alive"], ["silent", "silent"]]
    [box, silent] = cli("workers", "list", "--json").json["workers"]
    assert (box["name"], box["alive"], box["types"]) == ("box", True, ["t", "u"])
    assert (silent["alive"], silent["directive"]) == (False, "none")


def test_without_workers_the_list_says_so(cli: Cli) -> None:
    answer = cli("workers", "list")

    assert (answer.code, answer.out) == (0, "")
    assert "no worker" in answer.err


@pytest.mark.parametrize(
    ("verb", "directive"),
    [("drain", Directive.DRAIN), ("stop", Directive.STOP), ("resume", Directive.NONE)],
)
def test_workers_are_told_and_hear_it_at_their_next_beat(
    cli: Cli, app: App, verb: str, directive: Directive
) -> None:
    beat(app, 1, "box-1")
    beat(app, 2, "box-2")
    app.direct_workers(["box-1", "box-2"], "drain")

    answer = cli("workers", verb, "box-1", "box-3", "--reason", "a new disk", "--json")

    assert (answer.code, answer.json) == (0, {"directive": directive, "told": 1})
    assert beat(app, 1, "box-1") is directive
    assert beat(app, 2, "box-2") is Directive.DRAIN


def test_what_a_worker_was_told_is_listed_with_who_and_why(cli: Cli, app: App) -> None:
    beat(app, 1, "box")
    said = cli("workers", "drain", "box", "--reason", "a new disk")
    assert said.out == "1 worker asked to drain; heard within half a minute\n"

    listed = cli("workers", "list").out

    assert "drain by cli:" in listed
    assert "a new disk" in listed


def test_that_no_live_worker_has_such_a_name_is_an_error(cli: Cli, app: App, clock: Clock) -> None:
    beat(app, 1, "gone")
    clock.advance(minutes=5)

    answer = cli("workers", "stop", "gone")

    assert answer.code == 1
    assert "no live worker" in answer.err
    assert cli("workers", "stop").code == 2


def test_pauses_and_directives_are_in_the_audit(cli: Cli, app: App) -> None:
    beat(app, 1, "box")
    cli("queues", "pause", "mail", "--reason", "a flood")
    cli("queues", "resume", "mail", "--reason", "it is over")
    cli("workers", "drain", "box")

    entries = cli("audit", "list", "--json").json["audit"]

    assert [(entry["action"], entry["reason"]) for entry in entries] == [
        ("direct_workers", None),
        ("resume_queue", "it is over"),
        ("pause_queue", "a flood"),
    ]
