"""What callers are told of an error."""

from __future__ import annotations

import logging

import psycopg
import pytest

from wherry.server.problems import problem_of


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
