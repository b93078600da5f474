"""A worker for the bulk: `python -m tests.nemesis.drainer NAME`. It is the product's own worker.

It differs from the others of a run in what it serves, and in noting its answers in fewer bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from unittest import mock

from tests.nemesis import tally
from tests.nemesis.bulk import QUEUE, app
from tests.nemesis.worker import Part, main
from wherry.domain.lease import Reported
from wherry.domain.outcome import Completed, Outcome
from wherry.worker.answers import log_answers

CONCURRENCY = 200


def note_answers() -> None:
    """Note every answer to a completion."""

    def noting(outcomes: Sequence[Outcome], answers: Sequence[Reported]) -> None:
        tally.note(
            "answered",
            [
                (outcome.lease.id, outcome.lease.token, outcome.lease.lease_id, answer)
                for outcome, answer in zip(outcomes, answers, strict=True)
                if isinstance(outcome, Completed)
            ],
        )
        log_answers(outcomes, answers)

    mock.patch("wherry.worker.worker.log_answers", noting).start()


if __name__ == "__main__":
    sys.exit(main(Part(app, (QUEUE,), CONCURRENCY, note_answers)))
