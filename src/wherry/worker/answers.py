"""Writes what became of each outcome to the log: one line for each, with the fields of its task.

What comes again is a warning; only the dead are an error, so that nobody is woken by a retry. An
attempt's traceback stands in its line and nowhere else; a payload stands in none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

from wherry.domain.counting import count
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.telemetry.loggers import logger
from wherry.worker.logged import fields_of

log = logger("wherry.worker.outcomes")


def log_answers(outcomes: Sequence[Outcome], answers: Sequence[Reported]) -> None:
    """Log the answers to a report of outcomes that are all of one kind."""
    if (
        type(outcomes[0]) is Completed
        and Reported.LOST not in answers
        and not log.isEnabledFor(logging.DEBUG)
    ):
        # Nobody wants to hear that all is well, nor to pay for each time that it is.
        return
    for outcome, answer in zip(outcomes, answers, strict=True):
        log_answer(outcome, answer)


def log_answer(outcome: Outcome, answer: Reported) -> None:
    """Log one answer to one outcome."""
    # A worker reports only of what it leased itself.
    lease = cast("Lease", outcome.lease)
    failure = outcome.failure if isinstance(outcome, Failed) else None
    match answer:
        case Reported.LOST:
            level, text = logging.WARNING, "task %s: the report came too late, its lease was lost"
            args: tuple[Any, ...] = (lease.id,)
        case Reported.REQUEUED if failure is not None:
            level = logging.WARNING
            text = "task %s (%s) failed in attempt %d of %d and will be retried: %s: %s"
            args = (lease.id, lease.type, lease.attempt, lease.max_attempts)
        case Reported.DEAD if failure is not None:
            level, text = logging.ERROR, "task %s (%s) is dead after %s: %s: %s"
            args = (lease.id, lease.type, count(lease.attempt, "attempt"))
        case Reported.FAILED if failure is not None:
            level, text = logging.WARNING, "task %s (%s) failed for good: %s: %s"
            args = (lease.id, lease.type)
        case _:
            is_back = isinstance(outcome, GivenBack) or answer is Reported.REQUEUED
            text = "task %s (%s) is given back: %s" if is_back else "task %s (%s): %s"
            level, args, failure = logging.DEBUG, (lease.id, lease.type, answer), None
    if failure is not None and answer is not Reported.LOST:
        args = (*args, failure.type, failure.message)
    _write(level, text, args, lease, answer, traceback=failure.traceback if failure else "")


def _write(
    level: int,
    text: str,
    args: tuple[Any, ...],
    lease: Lease,
    answer: Reported,
    *,
    traceback: str,
) -> None:
    if not log.isEnabledFor(level):
        return
    fields = fields_of(lease)
    fields["outcome"] = str(answer)
    fields["duration_seconds"] = round(lease.ended_at - lease.began_at, 6)
    record = log.makeRecord(
        log.name, level, __file__, 0, text, args, None, func="log_answer", extra=fields
    )
    # Where formatters look for a traceback that was made already: the exception itself is gone.
    record.exc_text = traceback or None
    log.handle(record)
