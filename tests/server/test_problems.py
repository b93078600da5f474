"""What callers are told of an error."""

from __future__ import annotations

import logging
from datetime import timedelta

import psycopg
import pytest

from wherry import errors
from wherry.server.problems import Complaints, problem_of


@pytest.mark.parametrize(
    "error", [psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected]
)
def test_a_lock_that_was_not_had_is_for_trying_again(
    error: type[psycopg.Error], caplog: pytest.LogCaptureFixture
) -> None:
    problem = problem_of(error("canceling statement due to lock timeout"), doing="Enqueue")

    assert (problem.reason, problem.http_status) == ("DATABASE_UNAVAILABLE", 503)
    assert problem.retry_seconds
    [record] = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)


def test_a_statement_that_is_wrong_is_our_mistake() -> None:
    problem = problem_of(psycopg.errors.SyntaxError("no such word"), doing="Enqueue")

    assert problem.reason == "INTERNAL"


def test_an_outage_is_one_line_and_only_what_is_in_the_log_has_an_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = [problem_of(errors.Unavailable("away"), doing="Enqueue") for _ in range(50)]
    full = errors.PoolExhausted(size=4, waited=timedelta(seconds=2))
    overloaded = problem_of(full, doing="Enqueue")
    mistakes = [problem_of(ValueError("no"), doing="Enqueue") for _ in range(3)]

    assert [bool(problem.id) for problem in away] == [True, *[False] * 49]
    assert overloaded.id
    assert all(problem.id for problem in mistakes)
    assert len(caplog.records) == 5
    assert "all 4 are in use; raise --pool-size" in caplog.messages[1]
    assert "App(" not in caplog.messages[1]


def test_each_reason_is_complained_of_now_and_then_with_how_many_were_left_out() -> None:
    now = 100.0
    complaints = Complaints(clock=lambda: now)

    assert complaints.left_out("A") == 0
    assert complaints.left_out("A") is None
    assert complaints.left_out("B") == 0
    assert complaints.left_out("A") is None
    now += 5.0
    assert complaints.left_out("A") == 2
    now += 5.0
    assert complaints.left_out("A") == 0


@pytest.mark.parametrize(
    ("option", "field"),
    [("worker", "worker_id"), ("lease_for", "lease_duration"), ("limit", "page_size"),
     ("after", "page_token"), ("priority", "priority")],
)  # fmt: skip
def test_a_field_has_the_name_that_it_has_on_the_wire(option: str, field: str) -> None:
    problem = problem_of(errors.InvalidOption(option, None, "must be given"), doing="lease")

    assert problem.field == field
