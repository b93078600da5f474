"""The mission's list, point by point: on real PostgreSQL, with real worker processes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import wait_for
from tests.lateness import late_machine
from tests.mission import shop
from tests.mission.conftest import StartWorker
from wherry import Reported

TASKS = 20_000


def counted(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """How many tasks the database holds in each state."""
    rows = connection.execute("select state, count(*) from wherry.tasks group by state")
    return dict(rows.fetchall())


@pytest.mark.parametrize("workers", [10, 20])
def test_concurrent_workers_handle_each_of_many_tasks_exactly_once(
    app: wherry.App, connect: Any, start_worker: StartWorker, effects: Path, workers: int
) -> None:
    """A3, A7, DBL-13: 10 and 20 worker processes over 20,000 tasks."""
    app.enqueue_many(
        {"type": shop.count.name, "payload": {"n": n}, "queue": "mission"} for n in range(TASKS)
    )

    processes = [start_worker() for _ in range(workers)]
    codes = [process.wait(timeout=110) for process in processes]

    assert codes == [0] * workers
    assert counted(connect()) == {"succeeded": TASKS}
    times_handled = Counter(map(int, effects.read_text().split()))
    assert times_handled == Counter(range(TASKS))


def test_one_key_is_one_task_for_twenty_concurrent_transactions_of_which_some_roll_back(
    app: wherry.App, dsn: str, connect: Any
) -> None:
    """A2, K1: all that commit get the same id, and there is one row."""
    ids: list[int] = []
    together = threading.Barrier(20)

    def enqueue(n: int) -> None:
        with psycopg.connect(dsn) as connection:
            together.wait()
            answer = app.enqueue("any", {"n": 1}, queue="mission", key="k", tx=connection)
            if n % 3 == 0:
                connection.rollback()
            else:
                connection.commit()
                ids.append(answer.id)

    threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(ids) == 13
    assert len(set(ids)) == 1
    assert connect().execute("select count(*), min(id) from wherry.tasks").fetchone() == (1, ids[0])


def test_a_task_that_fails_twice_succeeds_in_its_third_attempt(
    app: wherry.App, start_worker: StartWorker, effects: Path
) -> None:
    """A4: both failures are in its history."""
    id_ = app.enqueue(shop.fail_twice.name, {}, queue="mission", retry=wherry.Fixed(0)).id

    assert start_worker().wait(timeout=60) == 0

    task = app.get_task(id_)
    assert task is not None
    assert (task.state, task.attempts) == ("succeeded", 3)
    assert [(a.attempt, a.outcome, a.message) for a in task.history] == [
        (1, "failed", "not yet"),
        (2, "failed", "not yet"),
    ]
    assert effects.read_text().splitlines() == ["attempt 1", "attempt 2", "attempt 3"]


def test_a_task_that_always_fails_ends_dead_with_its_error_and_can_be_requeued(
    app: wherry.App, start_worker: StartWorker
) -> None:
    """A4, A6: dead after its attempts; requeued it has all of them again."""
    options: dict[str, Any] = {"max_attempts": 3, "retry": wherry.Fixed(0)}
    id_ = app.enqueue(shop.fail_always.name, {}, queue="mission", **options).id

    assert start_worker().wait(timeout=60) == 0

    [dead] = app.list_tasks(state="dead").tasks
    assert (dead.id, dead.attempts, dead.error) == (id_, 3, "ValueError: never works")
    assert app.requeue(id_).answer == "queued"
    again = app.get_task(id_)
    assert again is not None
    assert (again.state, again.attempts, len(again.history)) == ("queued", 0, 3)


def test_a_task_whose_worker_was_killed_is_finished_by_another(
    app: wherry.App, start_worker: StartWorker, effects: Path
) -> None:
    """A5, DBL-09: within the lease and 5 s; the lost attempt is in the history, with its worker."""
    id_ = app.enqueue(shop.hang_once.name, {}, queue="mission", retry=wherry.Fixed(0)).id
    first = start_worker(lease_for=2.0, until_empty=False)
    wait_for(effects.read_text, seconds=60)

    def is_done() -> bool:
        task = app.get_task(id_)
        return task is not None and task.state == "succeeded"

    with late_machine() as machine:
        killed_at = time.monotonic()
        first.kill()
        start_worker(lease_for=2.0, until_empty=False)
        wait_for(is_done, seconds=60, what="another worker has finished the task")
        took = time.monotonic() - killed_at

    # A machine that is late is late at each step on the way.
    assert took < 2.0 + 5.0 + 2.0 + 20 * machine.longest
    task = app.get_task(id_)
    assert task is not None
    assert task.attempts == 2
    [lost] = task.history
    assert (lost.outcome, lost.attempt) == ("lost", 1)
    assert lost.worker is not None
    assert lost.worker.endswith(f"-{first.pid}")


def test_a_late_report_is_refused_and_changes_nothing_even_from_the_same_worker(
    app: wherry.App, clock: Any, connect: Any
) -> None:
    """A5, DBL-06: the fence is token and lease id, not the worker's name."""
    app.enqueue("slow", {}, queue="mission", retry=wherry.Fixed(0))
    [late] = app.lease(worker="w", queues=["mission"], lease_for=30)
    clock.advance(seconds=31)
    app.reap()
    [present] = app.lease(worker="w", queues=["mission"], lease_for=30)
    before = connect().execute("select * from wherry.tasks").fetchall()

    answers = [
        app.complete(late, result="late"),
        app.fail(late, "late"),
        app.snooze(late, 5),
        app.release(late),
        *app.heartbeat([late]),
    ]

    assert answers == [Reported.LOST] * 5
    assert connect().execute("select * from wherry.tasks").fetchall() == before
    assert app.complete(present) is Reported.DONE


def test_an_enqueue_that_was_rolled_back_is_never_seen(
    app: wherry.App, dsn: str, start_worker: StartWorker, effects: Path
) -> None:
    """B4, W3: neither leased nor listed, and its key is free."""
    with psycopg.connect(dsn) as connection:
        app.enqueue(shop.count.name, {"n": 1}, queue="mission", key="k", tx=connection)
        connection.rollback()
    kept = app.enqueue(shop.count.name, {"n": 2}, queue="mission", key="k")

    assert start_worker().wait(timeout=60) == 0

    assert kept.created
    assert effects.read_text().split() == ["2"]
    assert [task.id for task in app.list_tasks().tasks] == [kept.id]


@pytest.mark.parametrize(("commit", "attempts"), [(True, 1), (False, 2)])
def test_effects_and_completion_in_one_transaction_commit_together_or_not_at_all(
    app: wherry.App, connect: Any, start_worker: StartWorker, commit: bool, attempts: int
) -> None:
    """C4: rolled back, the task runs again; paid once either way."""
    connection = connect()
    connection.execute("create table payment (order_id int)")
    payload = {"order": 7, "commit": commit}
    id_ = app.enqueue(shop.pay.name, payload, queue="mission", retry=wherry.Fixed(0)).id

    assert start_worker().wait(timeout=60) == 0

    assert connection.execute("select order_id from payment").fetchall() == [(7,)]
    task = app.get_task(id_)
    assert task is not None
    assert (task.state, task.attempts) == ("succeeded", attempts)
