"""What an operator does about a flood in a queue that others share, by the verbs that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from tests.cli.conftest import Answer
from wherry import App, State

Cli = Callable[..., Answer]
FLOOD = 1500
MOVED = 1000


def test_a_flood_is_paused_and_moved_and_goes_on_slowly(
    cli: Cli, app: App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """PRI-09: pause one type, others flow; move a thousand, with a count first; go on at a rate."""
    flood = {"type": "report", "queue": "shared", "tags": ["old"], "max_attempts": 7}
    kept = [flood | {"payload": {"n": n}} for n in range(MOVED)]
    app.enqueue_many(kept)
    app.enqueue_many([flood | {"tags": ["new"]}] * (FLOOD - MOVED))
    mail = app.enqueue("mail", queue="shared").id
    [[before]] = connect().execute("select now()").fetchall()

    assert cli("types", "pause", "report", "--queue", "shared", "--reason", "a flood").code == 0
    [lease] = app.lease(worker="w", queues=["shared"], max_tasks=1000)
    assert lease.id == mail
    app.complete(lease)

    chosen = ("--queue", "shared", "--type", "report", "--tag", "old")
    assert f"{MOVED:,} tasks" in cli("tasks", "cancel", *chosen, "--dry-run").out
    assert app.count_tasks(queue="shared", state="queued").tasks == FLOOD
    cli("tasks", "cancel", *chosen, "--yes", "--reason", "moved")
    again = ("--state", "canceled", "--finished-after", before.isoformat(), "--to-queue", "night")
    assert f"{MOVED:,} tasks" in cli("tasks", "requeue", *chosen, *again, "--dry-run").out
    cli("tasks", "requeue", *chosen, *again, "--yes")

    rows = connect().execute("select queue, state, count(*) from wherry.tasks group by 1, 2")
    assert Counter({(queue, state): n for queue, state, n in rows}) == {
        ("night", "queued"): MOVED,
        ("shared", "queued"): FLOOD - MOVED,
        ("shared", "succeeded"): 1,
    }
    moved = app.list_tasks(queue="night", limit=1000).tasks
    assert sorted(task.payload["n"] for task in moved) == list(range(MOVED))
    assert {(task.max_attempts, task.attempts, task.state) for task in moved} == {
        (7, 0, State.QUEUED)
    }

    assert cli("queues", "limits", "shared", "--rate", "10/1s").code == 0
    assert cli("types", "resume", "report", "--queue", "shared").code == 0
    assert len(app.lease(worker="w", queues=["shared"], max_tasks=1000)) == 10
