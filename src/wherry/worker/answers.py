"""Writes what became of each outcome to the log.

What comes again is a warning; only the dead are an error, so that nobody is woken by a retry.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed, Failed, Outcome

log = logging.getLogger("wherry.worker")


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
    match outcome, answer:
        case _, Reported.LOST:
            log.warning("task %s: the report came too late, its lease was lost", lease.id)
        case Failed(failure=failure), Reported.REQUEUED:
            log.warning(
                "task %s (%s) failed in attempt %d of %d and will be retried: %s: %s",
                lease.id, lease.type, lease.attempt, lease.max_attempts, failure.type,
                failure.message,
            )  # fmt: skip
        case Failed(failure=failure), Reported.DEAD:
            log.error(
                "task %s (%s) is dead after %d attempts: %s: %s\n%s",
                lease.id, lease.type, lease.attempt, failure.type, failure.message,
                failure.traceback,
            )  # fmt: skip
        case Failed(failure=failure), Reported.FAILED:
            log.warning(
                "task %s (%s) failed for good: %s: %s",
                lease.id, lease.type, failure.type, failure.message,
            )  # fmt: skip
        case Completed(), _:
            log.debug("task %s (%s): %s", lease.id, lease.type, answer)
        case _:
            log.debug("task %s (%s) is given back: %s", lease.id, lease.type, answer)
