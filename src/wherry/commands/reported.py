"""Outcomes as statements take them, each lease once, and the answers in the caller's order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from wherry import config
from wherry.commands.base import Answer, Statement
from wherry.domain.lease import Fence, LeaseRef, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack

Reporting = TypeVar("Reporting", Completed, Failed, GivenBack)


def batch_of(outcomes: Sequence[Completed], before: int) -> dict[str, Any]:
    """Return the outcomes of one lease; *before* are in the batches before this one."""
    lease = outcomes[0].lease
    results = [outcome.result_text for outcome in outcomes]
    return {
        "lease_id": lease.lease_id,
        "queue": lease.queue,
        "before": before,
        "task_ids": [outcome.lease.id for outcome in outcomes],
        "tokens": [outcome.lease.token for outcome in outcomes],
        # As texts: PostgreSQL takes a list in an array for one more dimension of that array.
        "results": results if any(result is not None for result in results) else None,
    }


def given_back(outcomes: list[dict[str, Any]], closed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the parameters of a statement that gives tasks back."""
    return {
        "outcomes": json.dumps(outcomes),
        "closed": list(closed),
        "max_snoozes": config.MAX_SNOOZES,
        "max_releases": config.MAX_RELEASES,
    }


def fence_of(lease: LeaseRef) -> dict[str, Any]:
    """Return what a statement compares with a task's row."""
    return {
        "id": lease.id,
        "queue": lease.queue,
        "token": lease.token,
        "lease_id": lease.lease_id,
    }


def state_told(state: str) -> Reported:
    """Return the answer of a task that is in *state* now."""
    return Reported.REQUEUED if state == "queued" else Reported(state)


def once_each(outcomes: Sequence[Reporting]) -> Iterable[Reporting]:
    """Return the outcomes as `firsts_of` does; where no task comes twice it need not look."""
    if len({outcome.lease.id for outcome in outcomes}) == len(outcomes):
        return outcomes
    return firsts_of(outcomes).values()


def firsts_of(outcomes: Sequence[Reporting]) -> dict[Fence, Reporting]:
    """Return the first outcome of each lease: what the same call says of it later is too late."""
    firsts = {outcome.lease.fence: outcome for outcome in outcomes}
    if len(firsts) < len(outcomes):
        # The last of each is there, in the place of its first.
        firsts.update((outcome.lease.fence, outcome) for outcome in reversed(outcomes))
    return firsts


def settled(
    outcomes: Sequence[Reporting],
    firsts: dict[Fence, Reporting],
    done: Iterable[tuple[int, Reported]],
    *,
    verb: str,
) -> Answer[list[Reported]]:
    """Fill in the answers of the outcomes that changed nothing.

    *done* numbers *firsts* from 1. A lease that is reported twice in one call is settled once and
    answered ALREADY_DONE the second time.
    """
    leases = [outcome.lease for outcome in firsts.values()]
    answers: list[Reported | None] = [None] * len(leases)
    for ord_, answer in done:
        answers[ord_ - 1] = answer
    missing = [n for n, answer in enumerate(answers) if answer is None]
    if missing:
        rows = yield Statement(
            "leases/settled_tasks",
            {"outcomes": json.dumps([fence_of(leases[n]) for n in missing]), "verb": verb},
        )
        for ord_, why in rows:
            answers[missing[ord_ - 1]] = Reported(why)
    known = [Reported.LOST if answer is None else answer for answer in answers]
    if len(outcomes) == len(known):
        return known
    return list(in_turn(outcomes, dict(zip(firsts, known, strict=True))))


def in_turn(outcomes: Sequence[Reporting], answers: dict[Fence, Reported]) -> Iterable[Reported]:
    """Yield the answers in the order of the call; what it settles twice is done already."""
    seen: set[Fence] = set()
    for outcome in outcomes:
        fence = outcome.lease.fence
        again = fence in seen and answers[fence] not in (Reported.LOST, Reported.BUSY)
        yield Reported.ALREADY_DONE if again else answers[fence]
        seen.add(fence)
