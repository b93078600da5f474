"""A task is found wherever it is, as one row, and the view shows people the same."""

from __future__ import annotations

from datetime import timedelta

from tests.pg.support import Session
from wherry.commands.tasks import GetTask
from wherry.domain.state import State


def test_a_queued_task_shows_what_was_asked_for(session: Session) -> None:
    id_ = session.enqueue(
        "mail", {"to": "a@example.com", "n": 10**20, "x": -0.0, "y": 1e23}, priority=-3,
        max_attempts=7, key="k", timeout=5, tags=["x", "y"], headers={"h": "1"},
        delay=timedelta(hours=1),
    )  # fmt: skip

    task = session.task(id_)

    assert (task.id, task.state, task.queue, task.type) == (id_, State.QUEUED, "default", "mail")
    assert repr(task.payload) == repr({"to": "a@example.com", "n": 10**20, "x": -0.0, "y": 1e23})
    assert (task.priority, task.attempts, task.max_attempts, task.token) == (-3, 0, 7, 0)
    assert (task.key, task.timeout_seconds, task.tags) == ("k", 5.0, ("x", "y"))
    assert (task.headers, task.retry, task.history) == ({"h": "1"}, None, ())
    assert task.run_after - task.created_at == timedelta(hours=1)


def test_a_leased_task_shows_its_worker_and_the_end_of_its_lease(session: Session) -> None:
    session.enqueue()
    session.enqueue()
    one, two = session.lease(2, worker="w7")
    session.heartbeat(one, seconds=900)

    first, second = session.task(one.id), session.task(two.id)

    assert (first.state, first.worker) == (State.LEASED, "w7")
    assert first.lease_expires_at is not None
    assert second.lease_expires_at is not None
    assert first.lease_expires_at - second.lease_expires_at > timedelta(minutes=10)


def test_an_id_that_names_nothing_is_none(session: Session) -> None:
    assert session.find(1) is None
    assert session.find(2**62) is None


def test_the_view_shows_each_task_once_in_the_words_people_know(session: Session) -> None:
    states = {session.enqueue(): "queued", session.enqueue(delay=60): "queued"}
    for priority, (end, state) in enumerate(
        {
            "complete": "succeeded",
            "fail": "failed",
            "last": "dead",
            "cancel": "canceled",
            "": "leased",
        }.items()
    ):
        id_ = session.enqueue(priority=9 - priority, max_attempts=1)
        lease = session.lease_one()
        states[id_] = state
        match end:
            case "complete":
                session.complete(lease)
            case "fail":
                session.fail(lease, verdict="fail")
            case "last":
                session.fail(lease)
            case "cancel":
                session.fail(lease, verdict="cancel")
            case _:
                pass

    assert dict(session.rows("select id, state from wherry.tasks")) == states
    assert session.value("select count(*) from wherry.tasks") == len(states)


def test_the_view_has_every_column_the_mission_names(session: Session) -> None:
    session.enqueue("mail", {"n": 1}, key="k")
    session.lease_one(worker="w7")

    [row] = session.rows(
        "select queue, type, payload ->> 'n', state, attempts, max_attempts, key, lease_owner,"
        "       lease_expires_at > run_after, last_error, created_at is not null, finished_at"
        "  from wherry.tasks where payload @> '{\"n\": 1}'"
    )

    assert row == (
        "default", "mail", "1", "leased", 1, 20, "k", "w7", True, None, True, None,
    )  # fmt: skip


def test_a_task_is_found_by_its_queue_and_key_live_or_finished(session: Session) -> None:
    id_ = session.enqueue(queue="a", key="k")
    session.enqueue(queue="b", key="k")

    live = session.call(GetTask(queue="a", key="k"))

    assert live is not None
    assert (live.id, live.state) == (id_, State.QUEUED)
    session.fail(session.lease_one(queue="a"), verdict="fail")
    failed = session.call(GetTask(queue="a", key="k"))
    assert failed is not None
    assert (failed.state, len(failed.history)) == (State.FAILED, 1)


def test_a_key_that_names_no_task_finds_none(session: Session) -> None:
    session.enqueue(queue="a", key="k")

    assert session.call(GetTask(queue="a", key="other")) is None
    assert session.call(GetTask(queue="other", key="k")) is None
