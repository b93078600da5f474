"""Bulk verbs: which tasks, with whose consent, at what pace, and what is told of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Answer, Running
from wherry import App, State
from wherry.cli import bulk, selecting
from wherry.cli.tasks import requeuing

Cli = Callable[..., Answer]
Dead = Callable[..., list[int]]


def states(app: App) -> dict[int, str]:
    return {task.id: str(task.state) for task in app.list_tasks(limit=1000).tasks}


def kill(app: App, *ids: int) -> None:
    """Let these tasks fail for good, wherever they are in their queue."""
    left = set(ids)
    while left:
        for lease in app.lease(worker="w", queues=["*"], max_tasks=100):
            if lease.id in left:
                app.fail(lease, "boom", retry=False)
                left.discard(lease.id)
            else:
                app.release(lease)


# ── which tasks ──


@pytest.mark.parametrize("verb", [["tasks", "cancel"], ["tasks", "requeue"], ["dead", "purge"]])
def test_nothing_named_is_refused_rather_than_taken_for_everything(
    cli: Cli, verb: list[str]
) -> None:
    answer = cli(*verb, "--yes")

    assert answer.code == 2
    assert "Give ids, a filter such as --type, or --all" in answer.err


def test_ids_and_a_filter_exclude_one_another(cli: Cli) -> None:
    assert cli("dead", "requeue", "1", "--queue", "x").code == 2
    assert cli("dead", "requeue", "1", "--all").code == 2


def test_ids_need_no_further_consent(cli: Cli, app: App, dead: Dead) -> None:
    one, two, three = dead(3)

    answer = cli("dead", "requeue", str(one), str(three), str(one))

    assert answer == Answer(0, "requeued 2 tasks\n", "")
    assert states(app) == {one: "queued", two: "dead", three: "queued"}


def test_a_filter_needs_consent_where_nobody_can_be_asked(cli: Cli, app: App, dead: Dead) -> None:
    [id] = dead()

    answer = cli("dead", "requeue", "--all")

    assert answer.code == 2
    assert "nobody is there to be asked: requeue with --yes" in answer.err
    assert states(app) == {id: "dead"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--all"], "abcd"),
        (["--queue", "mail"], "bd"),
        (["--type", "shop.x"], "cd"),
        (["--queue", "mail", "--type", "shop.x"], "d"),
        (["--all", "--type", "shop.x"], "cd"),
        (["--error", "vALUEeRROR: B"], "abcd"),
        (["--error", "%"], ""),
        (["--older-than", "2h"], "abcd"),
        (["--older-than", "25h"], ""),
        (["--state", "failed"], ""),
        (["--state", "dead"], "abcd"),
        (["--tag", "x"], ""),
    ],
)
def test_filters_choose_what_is_requeued(
    cli: Cli, app: App, dead: Dead, options: list[str], names: str
) -> None:
    ids = {
        "a": dead()[0],
        "b": dead(queue="mail")[0],
        "c": dead(type="shop.x")[0],
        "d": dead(queue="mail", type="shop.x")[0],
    }

    answer = cli("dead", "requeue", *options, "--yes", "--json")

    assert answer.code == 0, answer.err
    assert answer.json["answers"] == ({"queued": len(names)} if names else {})
    queued = {id for id, state in states(app).items() if state == "queued"}
    assert queued == {ids[name] for name in names}


def test_what_succeeded_is_requeued_only_if_asked_for(cli: Cli, app: App) -> None:
    id = app.enqueue("a").id
    app.complete(app.lease(worker="w")[0])

    default = cli("tasks", "requeue", "--all", "--yes", "--json").json
    asked = cli("tasks", "requeue", "--state", "succeeded", "--yes", "--json").json

    assert (default["tasks"], asked["answers"]) == (0, {"queued": 1})
    assert states(app) == {id: "queued"}


# ── asking, and rehearsing ──


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody sit at the terminal."""
    monkeypatch.setattr(selecting, "is_terminal", lambda: True)


@pytest.mark.usefixtures("somebody")
def test_at_a_terminal_a_filter_asks_with_the_number(cli: Cli, app: App, dead: Dead) -> None:
    ids = dead(3)

    refused = cli("dead", "purge", "--all", stdin="n\n")
    agreed = cli("dead", "purge", "--all", stdin="y\n")

    assert refused.code == 1
    assert "Purge 3 tasks? [y/N]" in refused.err
    assert "nothing was changed" in refused.err
    assert (agreed.code, agreed.out) == (0, "purged 3 tasks\n")
    assert [app.get_task(id) for id in ids] == [None] * 3


@pytest.mark.usefixtures("somebody")
def test_nobody_is_asked_about_nothing(cli: Cli) -> None:
    answer = cli("dead", "requeue", "--all", stdin="")

    assert (answer.code, answer.out) == (0, "requeued 0 tasks\n")
    assert "?" not in answer.err


def test_a_rehearsal_counts_and_shows_some_and_changes_nothing(
    cli: Cli, app: App, dead: Dead
) -> None:
    ids = dead(1203)

    shown = cli("dead", "purge", "--all", "--dry-run")
    given = cli("dead", "purge", "--all", "--dry-run", "--json").json

    assert shown.code == 0
    assert shown.out.startswith("would purge 1,203 tasks; nothing was changed\nthe newest 10:\n")
    assert (given["tasks"], given["dry_run"]) == (1203, True)
    assert [task["id"] for task in given["sample"]] == sorted(ids, reverse=True)[:10]
    assert cli("dead", "list", "--limit", "1").code == 0
    assert all(app.get_task(id) is not None for id in ids[:3])


def test_a_rehearsal_by_ids_looks_at_those(cli: Cli, dead: Dead) -> None:
    ids = dead(2)

    given = cli("dead", "requeue", str(ids[0]), "999999", "--dry-run", "--json").json

    assert (given["tasks"], [task["id"] for task in given["sample"]]) == (1, [ids[0]])


# ── what is told ──


def test_each_task_is_told_of_and_one_does_not_stop_the_others(
    cli: Cli, app: App, dead: Dead
) -> None:
    [good] = dead()
    old = app.enqueue("a", key="k", key_ttl=0).id
    kill(app, old)
    new = app.enqueue("a", key="k").id
    live = app.enqueue("a").id

    answer = cli("tasks", "requeue", *map(str, (good, old, live, 4711)), "--json")
    shown = cli("tasks", "requeue", *map(str, (old, live, 4711)))

    assert answer.code == 1
    assert answer.json == {
        "verb": "requeue",
        "complete": True,
        "tasks": 4,
        "answers": {"key_taken": 1, "not_final": 1, "queued": 1, "unknown": 1},
        "left": [
            {"id": old, "answer": "key_taken", "taken_by": new},
            {"id": live, "answer": "not_final"},
            {"id": 4711, "answer": "unknown"},
        ],
    }
    assert "requeued 0 tasks\n1 task left alone: their keys meanwhile" in shown.out
    assert f"  {old} (now task {new})\n" in shown.out
    assert states(app)[good] == "queued"


def test_without_key_goes_on_where_a_key_is_taken(cli: Cli, app: App) -> None:
    old = app.enqueue("a", key="k", key_ttl=0).id
    kill(app, old)
    app.enqueue("a", key="k")

    refused = cli("dead", "requeue", "--all", "--yes")
    agreed = cli("dead", "requeue", "--all", "--yes", "--without-key")

    assert (refused.code, agreed.code) == (1, 0)
    task = app.get_task(old)
    assert task is not None
    assert (task.state, task.key) == (State.QUEUED, None)


def test_dead_verbs_leave_tasks_alone_that_are_not_dead(cli: Cli, app: App, dead: Dead) -> None:
    done = app.enqueue("a").id
    app.complete(app.lease(worker="w")[0])
    [good] = dead()

    requeued = cli("dead", "requeue", str(done), str(good), "--json")
    purged = cli("dead", "purge", str(done), "--json")

    assert (requeued.code, purged.code) == (1, 1)
    assert requeued.json["answers"] == {"not_dead": 1, "queued": 1}
    assert states(app) == {done: "succeeded", good: "queued"}


def test_cancel_ends_queued_tasks_and_asks_for_leased_ones(cli: Cli, app: App) -> None:
    leased = app.enqueue("a").id
    app.lease(worker="w")
    queued = app.enqueue("a").id

    answer = cli("tasks", "cancel", "--type", "a", "--yes", "--reason", "sale is over")

    assert answer.out == "canceled 1 task\nasked the workers of 1 task\n"
    canceled = app.get_task(queued)
    held = app.get_task(leased)
    assert canceled is not None
    assert held is not None
    assert (canceled.state, canceled.reason) == (State.CANCELED, "sale is over")
    assert held.cancel_requested_at is not None


def test_cancel_of_a_finished_task_is_told(cli: Cli, dead: Dead) -> None:
    [id] = dead()

    answer = cli("tasks", "cancel", str(id), "--json")

    assert (answer.code, answer.json["answers"]) == (1, {"final": 1})


# ── how it goes ──


def test_many_tasks_are_worked_on_in_pages_each_once(cli: Cli, app: App, dead: Dead) -> None:
    """CLI-08."""
    dead(1203)

    answer = cli("dead", "requeue", "--all", "--yes", "--json")
    again = cli("dead", "requeue", "--all", "--yes", "--json")

    assert answer.json["answers"] == {"queued": 1203}
    assert again.json["tasks"] == 0
    assert app.list_queues()[0].ready == 1203


def test_two_operators_at_once_requeue_each_task_once(
    started: Callable[..., Running], app: App, dsn: str, dead: Dead
) -> None:
    """CLI-08."""
    dead(1500)

    operators = [started("dead", "requeue", "--all", "--yes", "--json", "--dsn", dsn) for _ in "ab"]

    assert [operator.end() for operator in operators] == [0, 0]
    answers = [json.loads(operator.out)["answers"] for operator in operators]
    assert sum(answer.get("queued", 0) for answer in answers) == 1500
    assert app.list_queues()[0].ready == 1500


def test_a_rate_spreads_the_tasks_over_time(cli: Cli, dead: Dead) -> None:
    dead(30)
    began_at = time.monotonic()

    answer = cli("dead", "requeue", "--all", "--yes", "--rate", "20/s", "--json")

    assert answer.json["answers"] == {"queued": 30}
    # The first ten at once, the second after half a second, the third after another.
    assert time.monotonic() - began_at > 0.95


def run_requeue(app: App, *, told: Callable[[int], object], rate: float = 10.0) -> bulk.Tally:
    tally = bulk.Tally()
    bulk.run(
        app,
        requeuing(False),
        ids=None,
        chosen=bulk.Chosen(states=("dead", "failed")),
        rate=rate,
        tally=tally,
        told=told,
    )
    return tally


def test_a_task_that_dies_again_meanwhile_is_not_requeued_twice(app: App, dead: Dead) -> None:
    ids = dead(10)
    later = app.enqueue("late").id

    def die_again(done: int) -> None:
        if done == 5:
            kill(app, *ids[5:])

    tally = run_requeue(app, told=die_again)

    assert tally.answers == {"queued": 10}
    assert {id for id, state in states(app).items() if state == "failed"} == set(ids[5:])
    assert states(app)[later] == "queued"


def test_a_task_that_dies_after_the_start_is_left_for_the_next_run(
    app: App, sql: Callable[..., list[Any]], dead: Dead
) -> None:
    early = app.enqueue("alive at the start").id
    ids = dead(10)
    assert early < min(ids)

    tally = run_requeue(app, told=lambda done: kill(app, early) if done == 5 else None)

    assert tally.answers == {"queued": 10}
    assert states(app)[early] == "failed"


def test_a_task_that_moved_meanwhile_is_told_and_is_no_error(app: App, dead: Dead) -> None:
    ids = sorted(dead(10), reverse=True)

    class Raced(App):
        def requeue_many(self, ids: Any, **options: Any) -> Any:
            app.purge_many(ids[:1])
            return super().requeue_many(ids, **options)

    with Raced(app.dsn) as raced:
        tally = run_requeue(raced, told=lambda _: None)

    assert tally.answers == {"queued": 8, "unknown": 2}
    assert [left.id for left in tally.left] == [ids[0], ids[5]]


def test_a_failure_in_the_middle_tells_what_was_done_so_far(
    cli: Cli, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wherry.app.calls_blocking import Calls
    from wherry.errors import Unavailable

    dead(700)
    real = Calls.requeue_many
    calls: list[int] = []

    def fail_second(self: Any, ids: Any, **asked: Any) -> Any:
        # Its options are tried on no task first.
        calls.extend([len(ids)] if ids else [])
        if len(calls) == 2:
            raise Unavailable("the database is out of reach: it was pulled out")
        return real(self, ids, **asked)

    monkeypatch.setattr(Calls, "requeue_many", fail_second)
    answer = cli("dead", "requeue", "--all", "--yes")

    assert answer.code == 3
    assert answer.out == "requeued 500 tasks\n"
    assert "of 200 more tasks it is not known; running it again is safe" in answer.err
    assert "it was pulled out" in answer.err


def test_dead_tasks_are_put_into_another_queue(cli: Cli, dead: Dead, app: App) -> None:
    dead(3)

    answer = cli("dead", "requeue", "--all", "--yes", "--to-queue", "aside")

    assert answer.out == "requeued 3 tasks\n"
    assert [(depth.queue, depth.ready) for depth in app.list_queues()] == [("aside", 3)]


def test_many_skipped_tasks_are_counted_and_only_some_are_named() -> None:
    verb = requeuing(False)
    tally = bulk.Tally()

    tally.add([bulk.Answer(n, "not_final") for n in range(5000)], verb)

    assert tally.answers["not_final"] == 5000
    assert len(tally.left) == bulk.MOST_NAMED
