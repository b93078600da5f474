"""What is promised of leases: one at a time, from the database's clock, and never taken too early.

The audit's `said_at` is the database's now as the statement saw it, so these comparisons are exact.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tests.nemesis.audit import Entry
from tests.nemesis.doors import FAR_WORKER
from tests.nemesis.evidence import Evidence, fence_of
from tests.nemesis.lives import Fence, Step, instant
from tests.nemesis.tasks import HAND, LEASE_SECONDS, LIMITED, MOST_RUNNING

# A float of today's seconds is exact to a quarter of a microsecond; PostgreSQL's clock to one.
EXACT = 2e-6
# A statement sees what was committed before it began; the entry was written a commit earlier.
COMMIT_SECONDS = 3.0
IN_A_TRANSACTION = ("bank", "hand in a transaction")
# A handler may be held up for that long between the worker's look at the clock and its first line.
STALL_SECONDS = 0.25


def tokens_grow_by_one(evidence: Evidence) -> Iterator[str]:
    """L1: a token grows by one at a lease and at nothing else; a lease id is never used again."""
    leased_in: dict[str, int] = {}
    for life, step in evidence.steps():
        if step.new is None:
            continue
        # Where it begins is for the call to choose that stored the task.
        before = step.new["token"] if step.kind == "born" else (step.old or {}).get("token")
        if step.new["token"] != (before or 0) + step.is_lease:
            yield f"token {before} became {step.new['token']} at {step}\n{life}"
        if step.is_lease:
            at = leased_in.setdefault(step.new["lease_id"], step.transaction)
            if at != step.transaction:
                yield f"the lease id of {step} was used before\n{life}"
        elif step.was == step.state == "leased" and step.fence != _fence_after(step):
            yield f"leased while leased: {step}\n{life}"


def _fence_after(step: Step) -> Fence | None:
    row = step.new
    return None if row is None else (int(row["id"]), int(row["token"]), str(row["lease_id"]))


def attempts_are_counted(evidence: Evidence) -> Iterator[str]:
    """L2, C3: one more at a lease; snooze and release give theirs back; never above the limit."""
    for life, step in evidence.steps():
        if step.new is None:
            continue
        if step.new["attempts"] > step.new["max_attempts"]:
            yield f"more attempts than allowed at {step}\n{life}"
        before = 0 if step.old is None else step.old["attempts"]
        if step.kind in ("born", "requeued"):
            change = -before
        elif step.is_lease:
            change = 1
        else:
            change = -1 if _is_given_back(step) else 0
        if step.new["attempts"] != before + change:
            yield f"{before} attempts became {step.new['attempts']} at {step}\n{life}"


def _is_given_back(step: Step) -> bool:
    if not step.leaves_lease or step.attempt is not None or step.old is None:
        return False
    # Ended without a row of history, and not as succeeded: canceled while snoozed or released.
    return step.kind == "moved" or step.state == "canceled"


def live_leases_are_left_alone(evidence: Evidence) -> Iterator[str]:
    """L3: the reaper takes what has run out, and only that."""
    for life, step in evidence.steps():
        if not step.is_reap:
            continue
        vouched_for = step.attempt is not None and step.attempt["worker"] not in (None, "unknown")
        if step.lease_end is None or not vouched_for:
            yield f"a leased task had no lease at {step}\n{life}"
        elif step.said_at < step.lease_end - EXACT:
            yield f"reaped {step.lease_end - step.said_at:.6f} s too early at {step}\n{life}"


def leases_end_by_the_database_clock(evidence: Evidence) -> Iterator[str]:
    """L4, L5: a lease ends so long after the database's now; it is only ever extended, in time."""
    for entry in evidence.entries:
        if entry.place != "lease" or entry.new is None:
            continue
        end = instant(entry.new["expires_at"])
        if entry.old is None:
            length = end - entry.said_at
            by_worker = _is_leased_by_worker(entry)
            if by_worker and abs(length - LEASE_SECONDS) > EXACT:
                yield f"a lease of {length} s: {entry}"
            continue
        before = instant(entry.old["expires_at"])
        if end < before - EXACT:
            yield f"shortened: {entry}"
        if before <= entry.said_at - EXACT:
            yield f"extended {entry.said_at - before:.6f} s after its end: {entry}"


def _is_leased_by_worker(entry: Entry) -> bool:
    # A server leases for others too, who ask for other lengths.
    by_server = entry.application == "wherry server leasing"
    return entry.application.startswith("wherry leasing") or (
        by_server and entry.row["worker"] == FAR_WORKER
    )


def beats_are_for_holders(evidence: Evidence) -> Iterator[str]:
    """L5: a heartbeat is accepted from the current token only."""
    begins, ends = evidence.begins(), evidence.ends()
    for call in evidence.of("beat", "told"):
        for said, answer in zip(call.asked["fences"], call.told["answers"], strict=True):
            if answer not in ("extended", "cancel_requested"):
                continue
            fence = fence_of(said)
            begun, ended = begins.get(fence), ends.get(fence)
            if begun is None:
                # Leases are committed without waiting: a crash may have undone it since.
                continue
            if ended is None or ended.application in IN_A_TRANSACTION:
                continue
            if ended.at + COMMIT_SECONDS < call.asked_at:
                yield f"{call.who} extended {fence} at {call.asked_at}, ended at {ended}"


def replies_are_what_was_asked_for(evidence: Evidence) -> Iterator[str]:
    """L6: each task once, no more than asked for, and from that queue."""
    for call in evidence.of("lease", "told"):
        fences = [fence_of(said) for said in call.told["fences"]]
        if len(fences) > call.asked["limit"]:
            yield f"{len(fences)} leases for {call}"
        if any(times > 1 for times in Counter(id_ for id_, _, _ in fences).values()):
            yield f"a task twice in {call}"
        for id_, _, _ in fences:
            life = evidence.lives.get(id_)
            if life is not None and life.queue != call.asked.get("queue", HAND):
                yield f"task {id_} of queue {life.queue} in {call}"


def leases_are_given_once(evidence: Evidence) -> Iterator[str]:
    """L6: one answer only holds a lease, and one handler only begins with it."""
    given: Counter[Fence] = Counter()
    for call in evidence.of("lease", "told"):
        given.update(fence_of(said) for said in call.told["fences"])
    given.update(fence_of(note.said["fence"]) for note in evidence.noted("began"))
    for fence, times in given.items():
        if times > 1:
            yield f"the lease {fence} was given {times} times"


def paused_queues_give_nothing(evidence: Evidence) -> Iterator[str]:
    """L6: nothing is leased by a statement that began after a pause was told, until a resume."""
    resumes = [(c.asked["queue"], c.asked_at, c.ended_at) for c in evidence.of("resume")]
    leased: dict[str, list[Step]] = defaultdict(list)
    for life, step in evidence.steps():
        if step.is_lease:
            leased[life.queue].append(step)
    for call in evidence.of("pause", "told"):
        queue = call.asked["queue"]
        # Of those that may have come after the pause, the first.
        until = min(
            (asked for of, asked, ended in resumes if of == queue and ended >= call.asked_at),
            default=math.inf,
        )
        for step in leased[queue]:
            if call.ended_at < step.said_at and step.at < until:
                yield f"leased from {queue}, paused from {call.ended_at} to {until}: {step}"


def nothing_begins_after_its_deadline(evidence: Evidence) -> Iterator[str]:
    """L8: no handler begins when its worker's own clock says that the lease is over."""
    for note in evidence.noted("began"):
        if note.said["late_by"] > STALL_SECONDS:
            yield f"{note.who} began {note.said} too late"


def expired_reports_are_refused(evidence: Evidence) -> Iterator[str]:
    """L10: after its end a lease settles nothing, whether or not a reaper has come by."""
    for life, step in evidence.steps():
        if not step.leaves_lease or step.is_reap or step.application in IN_A_TRANSACTION:
            continue
        if step.lease_end is not None and step.said_at >= step.lease_end + EXACT:
            late = step.said_at - step.lease_end
            yield f"accepted {late:.6f} s after the lease's end: {step}\n{life}"


def crowds(evidence: Evidence) -> Iterator[tuple[int, Step]]:
    """Return how many of the limited queue were leased after each lease of one, at least.

    In the order of the entries: whoever leases has seen those gone that it does not count, so their
    entries were there before. What was rolled back left none.
    """
    steps = [(step, life) for life, step in evidence.steps() if life.queue == LIMITED]
    leased: set[int] = set()
    for step, life in sorted(steps, key=lambda found: found[0].n):
        if step.is_lease:
            leased.add(life.id)
            yield len(leased), step
        elif step.leaves_lease:
            leased.discard(life.id)


def limits_are_kept(evidence: Evidence) -> Iterator[str]:
    """L11: no more of a limited queue are leased at once than may be."""
    for leased, step in crowds(evidence):
        if leased > MOST_RUNNING:
            yield f"{leased} of the queue {LIMITED} were leased at once: {step}"


PROMISES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "L1 tokens grow by one": tokens_grow_by_one,
    "L2 attempts are counted": attempts_are_counted,
    "L3 live leases are left alone": live_leases_are_left_alone,
    "L4 leases end by the database's clock": leases_end_by_the_database_clock,
    "L5 beats are for holders": beats_are_for_holders,
    "L6 replies are what was asked for": replies_are_what_was_asked_for,
    "L6 leases are given once": leases_are_given_once,
    "L6 paused queues give nothing": paused_queues_give_nothing,
    "L8 nothing begins after its deadline": nothing_begins_after_its_deadline,
    "L10 expired reports are refused": expired_reports_are_refused,
    "L11 limits are kept": limits_are_kept,
}
