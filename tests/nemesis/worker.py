"""A worker process: `python -m tests.nemesis.worker NAME`. It is the product's own worker.

It only notes more than the product does: every answer to a report, whatever is logged as an error,
and how it ended. Its name is the same in each of its lives, as that of a restarted pod may be.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from unittest import mock

import wherry
from tests.nemesis import history, mutants
from tests.nemesis.doors import fence
from tests.nemesis.player import HOUR_SECONDS, hold_lifeline, move_clock, note_complaints
from tests.nemesis.tasks import (
    CONFIRM_SECONDS,
    LEASE_SECONDS,
    QUEUES,
    REAP_SECONDS,
    SHUTDOWN_SECONDS,
    UNREACHABLE,
    app,
)
from wherry.app.work import run_worker, worker_settings
from wherry.domain.lease import Reported
from wherry.domain.outcome import Completed, Failed, Outcome
from wherry.worker.answers import log_answers

# Nobody's clock but the database's may matter.
CLOCKS_OFF = {"worker-1": HOUR_SECONDS, "worker-3": -HOUR_SECONDS}


@dataclass(frozen=True, slots=True)
class Part:
    """What a worker serves, and how it notes the answers it gets."""

    app: wherry.App
    queues: tuple[str, ...]
    concurrency: int
    note_answers: Callable[[], object]


def verb_of(outcome: Outcome) -> str:
    """Return what was reported: complete, or the verdict."""
    match outcome:
        case Completed():
            return "complete"
        case Failed(verdict=verdict):
            return "fail" if verdict == "retry" else f"fail:{verdict}"
        case _:
            return outcome.verdict


def note_answers() -> None:
    """Note every answer that the worker gets to a report, before it acts on it."""

    def noting(outcomes: Sequence[Outcome], answers: Sequence[Reported]) -> None:
        for outcome, answer in zip(outcomes, answers, strict=True):
            history.mine().note(
                "reported", verb=verb_of(outcome), fence=fence(outcome.lease), answer=answer
            )
        log_answers(outcomes, answers)

    mock.patch("wherry.worker.worker.log_answers", noting).start()


async def work(name: str, part: Part) -> int:
    """Work until a signal says to stop; returns the exit code."""
    settings = replace(
        worker_settings(
            concurrency=part.concurrency,
            lease_for=LEASE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
            # One of them polls only.
            listen=name != "worker-1",
        ),
        look_every=timedelta(seconds=REAP_SECONDS),
    )
    try:
        summary = await run_worker(
            part.app, queues=part.queues, settings=settings, name=name, signals=True
        )
    finally:
        await part.app.aclose_loop()
    history.mine().note("left", abandoned=summary.abandoned, unreported=summary.unreported)
    return summary.exit_code


def main(part: Part) -> int:
    """Be one worker."""
    hold_lifeline()
    history.mine().note("began to work")
    mutants.apply()
    part.note_answers()
    note_complaints()
    move_clock(CLOCKS_OFF.get(sys.argv[1], 0.0))
    mock.patch("wherry.worker.remote.CONFIRM_SECONDS", CONFIRM_SECONDS).start()
    try:
        return asyncio.run(work(sys.argv[1], part))
    except wherry.Unavailable as error:
        # Started while the server was down: said in a line, and whoever started it does so again.
        print(error, file=sys.stderr)
        return UNREACHABLE
    except Exception:
        history.mine().note("failed", text=traceback.format_exc())
        return 1


if __name__ == "__main__":
    sys.exit(main(Part(app, QUEUES, 8, note_answers)))
