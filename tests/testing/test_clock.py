"""The clock that tests move, and what follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import wherry
from wherry.testing import Clock, TemplateServer

Connect = Callable[..., psycopg.Connection[Any]]


def test_the_time_is_the_real_one_until_it_is_moved(clock: Clock) -> None:
    before = datetime.now(UTC)

    now = clock.now()

    assert before - timedelta(seconds=1) < now < datetime.now(UTC) + timedelta(seconds=1)


def test_the_clock_moves_forward_step_by_step_and_goes_on(clock: Clock) -> None:
    start = clock.now()

    clock.advance(timedelta(hours=1), minutes=5)
    after = clock.advance(days=1, seconds=0.5)

    ahead = timedelta(days=1, hours=1, minutes=5, seconds=0.5)
    assert start + ahead <= after <= start + ahead + timedelta(seconds=30)
    assert clock.now() > after


def test_the_clock_does_not_go_back(clock: Clock) -> None:
    with pytest.raises(ValueError, match="only goes forward"):
        clock.advance(minutes=-1)


def test_statements_that_were_prepared_before_follow_it(clock: Clock, connect: Connect) -> None:
    connection = connect(prepare_threshold=0)
    question = "select wherry.now() - statement_timestamp() from wherry.settings"
    first = [connection.execute(question).fetchone() for _ in range(10)]

    clock.advance(hours=1)

    assert first == [(timedelta(0),)] * 10
    assert connection.execute(question).fetchone() == (timedelta(hours=1),)


def test_plans_are_those_of_the_real_clock(clock: Clock, connect: Connect) -> None:
    def plan() -> str:
        rows = connect().execute(
            "explain (verbose, costs off)"
            " select id from wherry.live where state = 'delayed' and run_after < wherry.now()"
        )
        return "\n".join(line for (line,) in rows)

    before = plan()
    clock.advance(minutes=1)
    after = plan()

    # The function is replaced by its body, so the condition can be one of an index.
    assert "wherry.now" not in before + after
    assert after == before.replace(
        "statement_timestamp()", "(statement_timestamp() + '00:01:00'::interval)"
    )


def test_many_may_move_it_at_once(clock: Clock) -> None:
    start = clock.now()
    movers = [threading.Thread(target=lambda: clock.advance(hours=1)) for _ in range(8)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join(30)

    assert timedelta(hours=8) < clock.now() - start < timedelta(hours=8, minutes=1)


def test_leases_run_out_by_it(app: wherry.App, clock: Clock) -> None:
    enqueued = app.enqueue("note", {}, max_attempts=1)
    [lease] = app.lease(worker="w", lease_for=60)

    clock.advance(minutes=2)

    assert app.complete(lease) == "lost"
    assert app.reap().dead == 1
    task = app.get_task(enqueued.id)
    assert task is not None
    assert task.state == "dead"


@pytest.mark.parametrize("schema", ['Odd %s "schema"', "wherry.x", "x$$y"])
def test_the_schema_may_have_any_name(schema: str) -> None:
    with TemplateServer(schema=schema) as server, server.database() as dsn:
        clock = Clock(dsn, schema=schema)
        before = clock.now()

        assert clock.advance(hours=1) - before >= timedelta(hours=1)
        with wherry.App(dsn, schema=schema) as app:
            app.enqueue("note", {}, delay=60)
            assert app.lease(worker="w") == []
            clock.advance(minutes=2)
            app.reap()
            assert len(app.lease(worker="w")) == 1
