"""Counts what a run has met.

A targeted event that never happened fails the run, which has proved nothing about it then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.nemesis.evidence import Evidence
from tests.nemesis.faults import EACH_ROUND
from tests.nemesis.tasks import TAKEN_ALONG

# In any run, however short and however busy the machine.
ALWAYS = (
    *(f"fault: {kind}" for kind in EACH_ROUND),
    "enqueue: told",
    "enqueue: rolled_back",
    "enqueue: unknown or killed",
    "enqueue: key was taken",
    "lease: lost and reaped",
    "report: done",
    "report: already_done",
    "report: lost",
    "report: requeued",
    "beat: extended",
    "beat: lost",
    "cancel: canceled",
    "cancel: final",
    "step: snoozed or released",
    "step: dead",
    "transfer: done",
    "transfer: rolled back or lost",
    "handler: took its worker along",
)
# In a run that is long enough to be sure of it.
IN_TIME = (
    "key: taken over from an ended task",
    "report: busy",
    "cancel: requested",
    "step: canceled while leased",
    "step: dead by lost workers",
    "step: purged",
    "step: requeued",
    "step: resent",
    "step: succeeded although a cancel was asked for",
    "step: succeeded in a transaction by hand",
    "handler: stopped",
)
LONG_SECONDS = 60.0


def missed(seen: Counter[str], *, seconds: float) -> list[str]:
    """Return what should have happened and did not."""
    wanted = ALWAYS + (IN_TIME if seconds >= LONG_SECONDS else ())
    return [event for event in wanted if not seen[event]]


def count(evidence: Evidence) -> Counter[str]:
    """Count every event by name."""
    return Counter(_events(evidence))


def _events(evidence: Evidence) -> Iterator[str]:
    for kind, times in evidence.faults.items():
        yield from [f"fault: {kind}"] * times
    yield from _enqueues(evidence)
    yield from _leases(evidence)
    yield from _steps(evidence)
    for call in evidence.of("cancel", "told"):
        yield from (f"cancel: {answer}" for _, answer in call.told["answers"])
    for call in evidence.of("requeue", "told"):
        yield from (f"requeue: {answer}" for _, answer in call.told["answers"])
    for call in evidence.of("beat", "told"):
        yield from (f"beat: {answer}" for answer in call.told["answers"])
    for ended in evidence.ended:
        yield f"process: {ended.name.partition('-')[0]} ended with {ended.code}"
        if ended.code == TAKEN_ALONG:
            yield "handler: took its worker along"
    yield from ("handler: stopped" for _ in evidence.noted("stopped"))


def _enqueues(evidence: Evidence) -> Iterator[str]:
    for wish in evidence.wishes():
        yield f"enqueue: {wish.call.end}"
        if wish.call.end in ("unknown", "killed"):
            yield "enqueue: unknown or killed"
        if wish.call.end == "told" and wish.created is False:
            yield "enqueue: key was taken"
            if not wish.matches:
                yield "enqueue: key was taken by another payload"
    owners: Counter[tuple[str, str]] = Counter()
    for life in evidence.lives.values():
        if life.key is not None:
            owners[life.queue, life.key] += 1
    for times in owners.values():
        yield from ["key: taken over from an ended task"] * (times - 1)


def _leases(evidence: Evidence) -> Iterator[str]:
    begins = evidence.begins()
    executions: Counter[int] = Counter()
    for note in evidence.noted("began"):
        id_, token, lease_id = note.said["fence"]
        executions[id_] += 1
        if (id_, token, lease_id) not in begins:
            yield "lease: undone by a crash"
    for call in evidence.of("lease", "told"):
        for id_, token, lease_id in call.told["fences"]:
            if (id_, token, lease_id) not in begins:
                yield "lease: undone by a crash"
    for report in evidence.reports():
        yield f"report: {report.answer}"
    for times in executions.values():
        yield "handler: began"
        yield from ["handler: began once more"] * (times - 1)


def _steps(evidence: Evidence) -> Iterator[str]:
    effects = {(id_, token, lease_id) for id_, token, lease_id, *_ in evidence.transfers}
    for life, step in evidence.steps():
        if step.kind in ("requeued", "resent", "purged"):
            yield f"step: {step.kind}"
        if step.is_reap:
            yield "lease: lost and reaped"
        if step.state == "dead":
            yield "step: dead"
            if step.is_reap:
                yield "step: dead by lost workers"
        asked_for = step.old is not None and step.old.get("cancel_requested_at") is not None
        if step.leaves_lease and asked_for:
            if step.state == "canceled":
                yield "step: canceled while leased"
            elif step.state == "succeeded":
                yield "step: succeeded although a cancel was asked for"
        if step.leaves_lease and step.kind == "moved" and step.attempt is None:
            yield "step: snoozed or released"
        if step.leaves_lease and life.type.startswith("transfer"):
            done = step.fence in effects
            yield "transfer: done" if done else "transfer: rolled back or lost"
        if step.leaves_lease and step.state == "succeeded":
            by_hand = step.application == "hand in a transaction"
            yield "step: succeeded in a transaction by hand" if by_hand else "step: succeeded"
