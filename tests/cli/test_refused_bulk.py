"""Bulk verbs that end before their first answer: what is then known, and said, of the tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wherry.app.app import App
from wherry.errors import Unavailable

Cli = Callable[..., Any]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(
    "words",
    [
        ("cancel", "--queue", ""),
        ("requeue", "--type", "x" * 1000),
        ("reschedule", "--all", "--delay", "100000w"),
        ("requeue", "--all", "--to-queue", "a\nb"),
        ("cancel", "--all", "--reason", "x" * 10_000),
    ],
)
def test_what_is_refused_at_the_door_is_not_half_done(
    cli: Cli, app: App, words: tuple[str, ...], as_json: tuple[str, ...]
) -> None:
    app.cancel(app.enqueue("a").id)
    app.enqueue("a")

    answer = cli("tasks", *words, "--yes", *as_json)

    assert (answer.code, answer.out) == (2, "")
    *told, error = answer.err.splitlines()
    # What the tasks were to be chosen by is seen later.
    assert told in ([], ["nothing was changed"])
    assert error.startswith("Error: ")
    assert app.count_tasks(state="queued").tasks == 1


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
@pytest.mark.parametrize(
    "words",
    [
        ("tasks", "requeue", "--per-second", "0"),
        ("dead", "requeue", "--to-queue", ""),
        ("tasks", "reschedule", "--delay", "100000w"),
        ("tasks", "cancel", "--reason", "x" * 10_000),
    ],
)
def test_an_option_that_cannot_be_is_refused_where_no_task_is(
    cli: Cli, words: tuple[str, ...], how: str
) -> None:
    """A script has to learn of it when it is written, not on the night it is needed."""
    answer = cli(*words, "--all", how)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: ")


def test_of_a_step_without_an_answer_it_is_said_how_many_it_was(
    cli: Cli, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue_many([{"type": "a"} for _ in range(7)])

    def lost(_: App, ids: Any, **__: Any) -> Any:
        if ids:
            raise Unavailable("gone")
        return []

    monkeypatch.setattr(App, "cancel_many", lost)
    answer = cli("tasks", "cancel", "--all", "--yes")

    assert (answer.code, answer.out) == (3, "canceled 0 tasks\n")
    assert "stopped in the middle: of 7 more tasks it is not known; running it" in answer.err


def test_a_run_that_ends_between_two_steps_knows_of_all_its_tasks(
    cli: Cli, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue_many([{"type": "a"} for _ in range(7)])
    listed = App.list_tasks
    looks = iter("12")

    def once(self: App, **asked: Any) -> Any:
        if next(looks) == "2":
            raise Unavailable("gone")
        asked["limit"] = 3
        return listed(self, **asked)

    monkeypatch.setattr(App, "list_tasks", once)
    answer = cli("tasks", "cancel", "--all", "--yes")

    assert (answer.code, answer.out) == (3, "canceled 3 tasks\n")
    assert "stopped in the middle; running it again is safe\n" in answer.err
