"""Counts what a run has met.

A targeted event that never happened fails the run, which has proved nothing about it then. Where
there are several runs, one after the other, it has to happen in one of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.nemesis.doors import FAR_WORKER
from tests.nemesis.evidence import Evidence
from tests.nemesis.faults import EACH_ROUND, EACH_ROUND_OF_BULK
from tests.nemesis.promised_leases import crowds
from tests.nemesis.tasks import HAND, MOST_RUNNING, TAKEN_ALONG
from wherry.domain.schedule import SCHEDULE_HEADER

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
    "far: enqueue told",
    "far: leased by a worker",
    "far: worker's report done",
    "far: cancel told",
    "schedule: fired",
)
# A report by who held the task before, while somebody else holds it: what every fence is for.
LATE = tuple(
    f"late: {verb} while another holds the task"
    for verb in ("complete", "fail", "snooze", "release", "complete in a transaction")
)
# In a run that is long enough to be sure of it.
IN_TIME = (
    *LATE,
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
    "far: enqueue unknown",
    "far: lease given back by the server",
    "giant: succeeded",
    "cancel: met another one",
    "pause: told",
    "pause: resumed by another",
    "limit: as many leased as may be",
    "schedule: missed",
    "schedule: overlapped",
    "schedule: paused",
    "schedule: by_hand",
    "schedule: fired by another than the last one",
    "refused: deadlock detected",
    "refused: canceling statement due to lock timeout",
)
OF_BULK = (
    *(f"fault: {kind}" for kind in EACH_ROUND_OF_BULK),
    "bulk: tasks",
    "bulk: executions of a task that had begun before",
    "bulk: lease lost and reaped",
)
LONG_SECONDS = 60.0
REFUSED = (
    "deadlock detected",
    "canceling statement due to lock timeout",
    "canceling statement due to statement timeout",
    "canceling statement due to user request",
    "sorry, too many clients already",
)


def missed(seen: Counter[str], *, seconds: float, bulk: bool = False) -> list[str]:
    """Return what should have happened and did not."""
    wanted = ALWAYS + (IN_TIME if seconds >= LONG_SECONDS else ()) + (OF_BULK if bulk else ())
    return [event for event in wanted if not seen[event]]


def untried(seen: Counter[str]) -> list[str]:
    """Return what a run with a known bug should try as well, before it is over."""
    return [event for event in LATE if not seen[event]]


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
        yield from ["far: cancel told"] * bool(call.asked.get("far"))
    yield from _crowds(evidence)
    yield from _late(evidence)
    for leased, _ in crowds(evidence):
        yield from ["limit: as many leased as may be"] * (leased == MOST_RUNNING)
    yield from _schedules(evidence)
    yield from ("pause: told" for _ in evidence.of("pause", "told"))
    for call in evidence.of("resume", "told"):
        yield from ["pause: resumed by another"] * (not call.told["changed"])
    for line in evidence.server_log.splitlines():
        yield from (f"refused: {reason}" for reason in REFUSED if reason in line)
    for call in evidence.of("requeue", "told"):
        yield from (f"requeue: {answer}" for _, answer in call.told["answers"])
    for call in evidence.of("beat", "told"):
        yield from (f"beat: {answer}" for answer in call.told["answers"])
    for ended in evidence.ended:
        yield f"process: {ended.name.partition('-')[0]} ended with {ended.code}"
        if ended.code == TAKEN_ALONG:
            yield "handler: took its worker along"
    yield from ("handler: stopped" for _ in evidence.noted("stopped"))
    for note in evidence.noted("left"):
        yield from ["worker: left outcomes behind"] * bool(note.said["unreported"])


def _crowds(evidence: Evidence) -> Iterator[str]:
    """Yield for each cancel that began while another one of the same task was under way."""
    under_way_until: dict[int, float] = {}
    for call in evidence.of("cancel"):
        if any(under_way_until.get(id_, 0.0) > call.asked_at for id_ in call.asked["ids"]):
            yield "cancel: met another one"
        for id_ in call.asked["ids"]:
            under_way_until[id_] = max(under_way_until.get(id_, 0.0), call.ended_at)


def _late(evidence: Evidence) -> Iterator[str]:
    held: defaultdict[int, list[tuple[int, float, float]]] = defaultdict(list)
    ends = evidence.ends()
    for fence, begin in evidence.begins().items():
        end = ends.get(fence)
        held[fence[0]].append((fence[1], begin.at, math.inf if end is None else end.at))
    for call in evidence.of("report"):
        id_, token, _ = call.asked["fence"]
        if any(
            newer > token and begin < call.asked_at < end for newer, begin, end in held[int(id_)]
        ):
            yield f"late: {call.asked['verb']} while another holds the task"


def _schedules(evidence: Evidence) -> Iterator[str]:
    for tick in evidence.ticks:
        yield from [f"schedule: {tick['outcome']}"] * tick["n"]
    last: dict[str, str] = {}
    for life in sorted(evidence.lives.values(), key=lambda life: life.steps[0].n):
        name, by = life.headers.get(SCHEDULE_HEADER), life.steps[0].application
        if name is not None and last.setdefault(name, by) != by:
            yield "schedule: fired by another than the last one"
            last[name] = by


def _enqueues(evidence: Evidence) -> Iterator[str]:
    for wish in evidence.wishes():
        yield f"enqueue: {wish.call.end}"
        if wish.call.asked.get("far"):
            yield f"far: enqueue {wish.call.end}"
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
    begins, ends = evidence.begins(), evidence.ends()
    executions: Counter[int] = Counter()
    for note in evidence.noted("began"):
        id_, token, lease_id = note.said["fence"]
        executions[id_] += 1
        if (id_, token, lease_id) not in begins:
            yield "lease: undone by a crash"
        end = ends.get((id_, token, lease_id))
        if end is None or end.is_reap:
            # Whatever it did, it is done once more.
            yield "handler: ran in vain"
    for call in evidence.of("lease", "told"):
        for id_, token, lease_id in call.told["fences"]:
            if (id_, token, lease_id) not in begins:
                yield "lease: undone by a crash"
    for report in evidence.reports():
        yield f"report: {report.answer}"
        if report.who.startswith(FAR_WORKER):
            yield f"far: worker's report {report.answer}"
    for times in executions.values():
        yield "handler: began"
        yield from ["handler: began once more"] * (times - 1)


def _steps(evidence: Evidence) -> Iterator[str]:
    effects = {(id_, token, lease_id) for id_, token, lease_id, *_ in evidence.transfers}
    for life, step in evidence.steps():
        if step.kind in ("requeued", "resent", "purged"):
            yield f"step: {step.kind}"
        if step.is_lease and step.application == "wherry server leasing":
            yield "far: leased by a worker" if life.queue != HAND else "far: leased by hand"
        if step.leaves_lease and step.application == "wherry server keeping":
            yield "far: lease given back by the server"
        if life.type == "giant" and step.state == "succeeded":
            yield "giant: succeeded"
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
