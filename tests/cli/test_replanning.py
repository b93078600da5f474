"""`wherry tasks reprioritize` and `reschedule`: over a filter, with a preview, and in the audit."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]


def test_a_whole_filter_gets_another_priority(cli: Cli, app: App) -> None:
    ids = [app.enqueue("mail", queue="q").id for _ in range(3)]
    other = app.enqueue("mail").id

    preview = cli("tasks", "reprioritize", "--queue", "q", "--priority", "7", "--dry-run")
    assert preview.out.startswith("would reprioritize 3 tasks; nothing was changed")
    done = cli("tasks", "reprioritize", "--queue", "q", "--priority", "7", "--yes")

    assert (done.code, done.out) == (0, "reprioritized 3 tasks\n")
    assert {app.get_task(id_).priority for id_ in ids} == {7}  # type: ignore[union-attr]
    assert app.get_task(other).priority == 0  # type: ignore[union-attr]
    [entry] = cli("audit", "list", "--json").json["audit"]
    assert (entry["action"], entry["count"]) == ("reprioritize_tasks", 3)


def test_tasks_run_at_once_or_later(cli: Cli, app: App) -> None:
    id_ = app.enqueue("t", delay=3600).id

    now = cli("tasks", "reschedule", str(id_), "--now")

    assert (now.code, now.out) == (0, "rescheduled 1 task\n")
    [lease] = app.lease(worker="w")
    assert lease.id == id_
    left = cli("tasks", "reschedule", str(id_), "--delay", "2h")
    assert left.code == 1
    assert "1 task left alone: in a worker's hands" in left.out
    assert cli("tasks", "reschedule", str(id_)).code == 2
    assert cli("tasks", "reschedule", str(id_), "--now", "--delay", "2h").code == 2
