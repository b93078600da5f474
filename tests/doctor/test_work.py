"""Checks of the work: each sees its illness on a database that was made so."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wherry
from tests.doctor.conftest import Look
from tests.pg.support import Session, spec
from tests.worker.support import at_work
from wherry.commands.maintenance import ParkTasks
from wherry.commands.queues import PauseQueue, PauseType
from wherry.commands.tasks import EnqueueTasks
from wherry.commands.workers import BeatWorker, LeaveWorker
from wherry.doctor.finding import Verdict
from wherry.testing import Clock

PROBLEM, WARNING, OK = Verdict.PROBLEM, Verdict.WARNING, Verdict.OK
ONE, TWO = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def beat(instance: str, name: str, *, queues: tuple[str, ...] | None = None) -> BeatWorker:
    return BeatWorker(
        instance=instance, name=name, host="h", pid=1, queues=queues, types=("known",)
    )


def test_a_lease_that_nobody_takes_back_is_a_problem(
    look: Look, session: Session, clock: Clock
) -> None:
    session.enqueue()
    session.lease_one(worker="gone-1", seconds=30)
    clock.advance(seconds=80)
    assert look("leases").verdict is OK

    clock.advance(minutes=5)
    found = look("leases")

    assert found.verdict is PROBLEM
    assert "1 lease of gone-1 ran out, the oldest 6 min ago" in found.seen
    session.reap()
    assert look("leases").verdict is OK


@pytest.mark.parametrize(("minutes", "verdict"), [(1, OK), (20, WARNING), (90, PROBLEM)])
def test_a_due_task_that_waits_too_long_is_told_with_its_queue(
    look: Look, session: Session, clock: Clock, minutes: float, verdict: Verdict
) -> None:
    # The late one stands behind a fresh one of higher priority, and beside a queue that is paused.
    session.enqueue(queue="slow", priority=-5)
    session.enqueue(queue="paused")
    session.call(PauseQueue("paused"))
    clock.advance(minutes=minutes)
    session.enqueue(queue="slow", priority=5)
    session.enqueue(queue="other")

    found = look("due tasks")

    assert found.verdict is verdict
    assert "in queue 'slow' at priority -5" in found.seen
    assert "late, too" not in found.seen


def test_how_many_more_queues_are_late_is_said(look: Look, session: Session, clock: Clock) -> None:
    for queue in ("slow", "other"):
        session.enqueue(queue=queue)
    clock.advance(minutes=20)

    assert "; 1 other is late, too" in look("due tasks").seen


def test_a_delayed_task_that_nobody_promotes_is_a_problem(
    look: Look, session: Session, clock: Clock
) -> None:
    session.enqueue(delay=600)
    assert look("delayed tasks").verdict is OK

    clock.advance(minutes=15)
    assert look("delayed tasks").verdict is PROBLEM
    assert "due for 5 min" in look("delayed tasks").seen

    session.promote()
    assert look("delayed tasks").verdict is OK


def test_tasks_of_types_that_nobody_knows_are_told_by_type(
    look: Look, session: Session, clock: Clock
) -> None:
    for type_ in ("known", "mail.snd", "mail.snd"):
        session.call(EnqueueTasks((spec(type_),)))
    session.call(beat(ONE, "w"))
    session.call(ParkTasks("default"))

    found = look("unknown types")
    assert (found.verdict, found.seen) == (
        WARNING,
        "2 tasks wait for a worker that knows the type: 'mail.snd' (2 in default)",
    )

    clock.advance(hours=2)
    assert look("unknown types").verdict is PROBLEM


def test_tasks_beside_those_of_a_paused_type_are_told(look: Look, session: Session) -> None:
    for type_ in ("a", "b", "c"):
        for queue in ("q1", "q2"):
            session.enqueue(type_, queue=queue)
    session.call(PauseType("b"))
    session.call(PauseType("c", "q1"))
    session.call(beat(ONE, "w"))
    for queue in ("q1", "q2"):
        session.call(ParkTasks(queue))

    assert look("unknown types").seen.endswith(": 'a' (2 in q1, q2), 'c' (1 in q2)")


def test_a_paused_queue_is_told_if_tasks_wait_there(look: Look, session: Session) -> None:
    session.call(PauseQueue("a b; rm", "ada", "the provider is down"))
    assert look("paused queues").verdict is OK

    session.enqueue(queue="a b; rm")
    found = look("paused queues")

    assert found.verdict is WARNING
    assert "by ada: the provider is down, and 1 ready task waits there" in found.seen
    assert (found.advice or "").endswith("wherry queues resume -- 'a b; rm'")


def test_a_paused_type_is_told_if_tasks_wait_for_it(
    look: Look, session: Session, clock: Clock
) -> None:
    assert (look("paused types").verdict, look("paused types").seen) == (OK, "no type is paused")
    session.call(PauseType("known", "mail", "ada", "a flood"))
    assert look("paused types").verdict is OK

    for queue in ("mail", "default"):
        session.call(EnqueueTasks((spec("known", queue=queue),)))
    session.call(beat(ONE, "w"))
    session.call(ParkTasks("mail"))
    clock.advance(hours=3)
    session.call(beat(ONE, "w"))
    found = look("paused types")

    assert found.verdict is WARNING
    assert "'known' was paused 3 h ago in queue 'mail' by ada: a flood, and 1 task" in found.seen
    assert found.advice == "if that is over: wherry types resume --queue=mail -- known"
    assert look("unknown types").verdict is OK

    session.call(PauseType("known"))
    assert look("paused types").seen.endswith("and 1 task waits for that; and 1 other")


def test_a_queue_that_no_live_worker_serves_is_a_problem(
    look: Look, session: Session, clock: Clock
) -> None:
    session.enqueue(queue="mail")
    assert look("workers").verdict is PROBLEM
    assert look("workers").seen == "no worker is alive, and tasks are ready in 'mail'"

    session.call(beat(ONE, "w1", queues=("other",)))
    assert look("workers").seen == "no live worker serves them, and tasks are ready in 'mail'"

    session.call(beat(TWO, "w2", queues=("mail", "other")))
    assert look("workers").verdict is OK

    clock.advance(minutes=5)
    assert look("workers").verdict is PROBLEM


def test_a_worker_whose_listener_is_down_is_told_after_a_minute(
    look: Look, session: Session, clock: Clock
) -> None:
    session.call(beat(ONE, "hears"))
    session.call(replace(beat(TWO, "w2"), deaf_seconds=20.0))
    assert look("listeners").verdict is OK

    clock.advance(minutes=2)
    session.call(beat(ONE, "hears"))
    session.call(replace(beat(TWO, "w2"), deaf_seconds=140.0))
    found = look("listeners")

    assert found.verdict is WARNING
    assert found.seen.startswith("1 worker hears no notification, for 2 min by now: w2;")
    session.call(beat(TWO, "w2"))
    assert look("listeners").verdict is OK


def test_a_worker_that_fell_silent_is_told_until_it_is_back(
    look: Look, session: Session, clock: Clock
) -> None:
    session.call(beat(ONE, "w1"))
    session.call(beat(TWO, "w2"))
    clock.advance(minutes=5)
    session.call(beat(TWO, "w2"))

    found = look("workers")
    assert found.verdict is WARNING
    assert "1 worker fell silent without a goodbye: w1; 1 live" in found.seen

    # Under its old name another instance has taken its place.
    session.call(beat("00000000-0000-4000-8000-000000000003", "w1"))
    assert look("workers").verdict is OK
    session.call(LeaveWorker(TWO))
    assert look("workers").seen == "1 worker live"


def test_more_dead_tasks_than_in_the_hour_before_are_told_by_type(
    look: Look, session: Session, clock: Clock
) -> None:
    def die(times: int) -> None:
        for _ in range(times):
            session.enqueue("mail.send", max_attempts=1)
            session.fail(session.lease_one())

    die(6)
    clock.advance(minutes=70)
    die(9)
    assert look("dead tasks").verdict is OK

    die(3)
    found = look("dead tasks")

    assert found.verdict is WARNING
    assert found.seen == (
        "12 tasks ended badly in the last hour, 6 in the hour before: mail.send (12)"
    )


def test_of_many_queues_a_few_are_named(session: Session, look: Look) -> None:
    session.call(EnqueueTasks(tuple(spec(queue=f"q{n % 50}", priority=n % 3) for n in range(600))))

    assert look("due tasks").verdict is OK
    assert look("workers").seen.endswith("and 45 more")


async def test_a_worker_that_runs_is_fine(app: wherry.App, look: Look) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app):
        assert look("workers").seen == "1 worker live"
