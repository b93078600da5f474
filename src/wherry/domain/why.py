"""Why a task is where it is: decided here, from facts that one statement has read.

The reasons are in the order in which they matter: what holds the task first comes first. A queued
task can have many; whatever state it is in, there is at least one. `code` is for programs and
stays, `text` and `advice` are for people and may be worded anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from shlex import quote

from wherry.domain.durations import span
from wherry.domain.state import FINAL, State
from wherry.domain.why_facts import Facts, Room, TypePause

# No more of the tasks ahead are counted.
MOST_AHEAD = 1000
# Maintenance looks every few seconds; what is later by this is late.
_LATE_SECONDS = 30.0
_LONGEST_ERROR = 300


class Code(StrEnum):
    """What a reason is, for programs."""

    NOT_FOUND = "not_found"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    CANCELED = "canceled"
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    LEASE_EXPIRED = "lease_expired"
    QUEUE_PAUSED = "queue_paused"
    TYPE_PAUSED = "type_paused"
    LIMIT_REACHED = "limit_reached"
    RATE_REACHED = "rate_reached"
    DELAYED = "delayed"
    WAITS_FOR_RETRY = "waits_for_retry"
    SNOOZED = "snoozed"
    PROMOTION_LATE = "promotion_late"
    NO_WORKER = "no_worker"
    QUEUE_NOT_SERVED = "queue_not_served"
    TYPE_NOT_KNOWN = "type_not_known"
    WORKERS_DRAIN = "workers_drain"
    PARKED = "parked"
    TASKS_AHEAD = "tasks_ahead"
    LAST_ATTEMPT = "last_attempt"
    NEXT = "next"
    EXPIRED = "expired"
    WILL_EXPIRE = "will_expire"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a sentence, what to do about it (empty: nothing), and the moment it is about.

    `code` is one of Code; a newer server may tell others.
    """

    code: str
    text: str
    advice: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a task is where it is, most important reason first. `state` None: there is no such task.

    `at` is the moment at which this was so, by the database's clock; it has none for no task.
    """

    id: int
    state: State | None
    reasons: tuple[Reason, ...]
    at: datetime | None = None
    queue: str | None = None

    @classmethod
    def not_found(cls, id: int) -> Why:
        """Return what is told of a task that is not there."""
        text = f"there is no task {id}"
        advice = (
            "it was purged, or its retention is over; or the transaction that enqueued it has not"
            " committed, or was rolled back"
        )
        return cls(id, None, (Reason(Code.NOT_FOUND, text, advice),))


def why(facts: Facts) -> Why:
    """Return the reasons for what *facts* tell of a task."""
    if facts.state in FINAL:
        state, reasons = State(facts.state), _ended(facts)
    elif facts.state == "leased":
        state, reasons = State.LEASED, _leased(facts)
    else:
        state, reasons = State.QUEUED, _queued(facts)
    return Why(facts.id, state, tuple(reasons), facts.now, facts.queue)


def _ended(facts: Facts) -> Iterator[Reason]:
    ended_at = facts.finished_at or facts.now
    ago = f"{span(facts.after(ended_at))} ago"
    on = f" on {facts.holder}" if facts.holder else ""
    said = f": {facts.reason}" if facts.reason else ""
    error = f" Its last error: {_short(facts.error)}" if facts.error else ""
    again = f"mend the cause, then: wherry dead requeue {facts.id}"
    match State(facts.state):
        case State.SUCCEEDED:
            text = f"it succeeded{on} {ago}, at attempt {facts.attempts}"
            yield Reason(Code.SUCCEEDED, text, at=ended_at)
        case State.FAILED:
            text = f"it failed for good{on} {ago}{said}.{error}"
            yield Reason(Code.FAILED, text, f"its handler said: do not retry; {again}", ended_at)
        case State.DEAD:
            tried = f"after {facts.attempts} of {facts.max_attempts} attempts"
            yield Reason(Code.DEAD, f"it died{on} {ago}, {tried}{said}.{error}", again, ended_at)
        case _:
            advice = (
                "who canceled it stands in: wherry audit; to run it: wherry tasks requeue"
                f" {facts.id}"
            )
            yield Reason(Code.CANCELED, f"it was canceled{on} {ago}{said}", advice, ended_at)


def _leased(facts: Facts) -> Iterator[Reason]:
    holder = facts.holder or "somebody"
    ends_at = facts.lease_expires_at
    if ends_at is None:
        text = "it is leased, but its lease is gone"
        yield Reason(Code.LEASE_EXPIRED, text, f"it is taken back within two minutes. {_NOBODY}")
        return
    if ends_at <= facts.now:
        text = (
            f"the lease of {holder} ran out {span(facts.after(ends_at))} ago, and nobody took it"
            " back"
        )
        yield Reason(
            Code.LEASE_EXPIRED,
            text,
            "it is taken back within seconds; else a transaction that completes it stands open."
            f" {_NOBODY}",
            ends_at,
        )
    else:
        since = f" for {span(facts.after(facts.started_at))}" if facts.started_at else ""
        text = (
            f"{holder} has it{since}, attempt {facts.attempts} of {facts.max_attempts}; its lease"
            f" runs out in {span(-facts.after(ends_at))} unless it is extended"
        )
        yield Reason(Code.RUNNING, text, at=facts.started_at)
    if facts.cancel_requested_at is not None:
        said = f": {facts.reason}" if facts.reason else ""
        text = f"its cancel was asked for {span(facts.after(facts.cancel_requested_at))} ago{said}"
        yield Reason(
            Code.CANCEL_REQUESTED,
            text,
            "the worker hears of it at its next heartbeat; what it completes first stands",
            facts.cancel_requested_at,
        )


_NOBODY = "If no worker and no server runs, start one: each keeps the queues in order"


def _queued(facts: Facts) -> Iterator[Reason]:
    if facts.discard_at is not None and facts.discard_at <= facts.now:
        text = (
            f"its time to live was over {span(facts.after(facts.discard_at))} ago: it is not"
            " leased any more"
        )
        advice = f"it is canceled within seconds. {_NOBODY}"
        yield Reason(Code.EXPIRED, text, advice, facts.discard_at)
        return
    if facts.state == "delayed":
        yield _delayed(facts)
    if facts.paused_at is not None:
        by = f" by {facts.paused_by}" if facts.paused_by else ""
        said = f": {facts.pause_reason}" if facts.pause_reason else ""
        text = (
            f"the queue {facts.queue} was paused{by} {span(facts.after(facts.paused_at))} ago{said}"
        )
        advice = f"to go on: wherry queues resume {_named(facts.queue)}"
        yield Reason(Code.QUEUE_PAUSED, text, advice, facts.paused_at)
    held = facts.type_pauses
    if held:
        yield _type_paused(facts, held)
    crew = list(_crew(facts))
    yield from crew
    if facts.state == "parked" and not crew and not held:
        text = "it is set aside: its type was paused, or no live worker knew it; that is over"
        yield Reason(Code.PARKED, text, f"it is ready again within seconds. {_NOBODY}")
    if facts.state == "ready":
        full = list(_full(facts, facts.room)) if facts.room else []
        yield from full
        yield from _ready(facts, free=not (facts.paused_at or held or crew or full))
    if facts.discard_at is not None:
        text = (
            f"it is canceled if it has not started in {span(-facts.after(facts.discard_at))}:"
            " its ttl"
        )
        yield Reason(Code.WILL_EXPIRE, text, at=facts.discard_at)


def _delayed(facts: Facts) -> Reason:
    late_seconds = facts.after(facts.run_after)
    if late_seconds >= 0:
        text = f"it was due {span(late_seconds)} ago and is not ready yet"
        advice = "it is ready within seconds"
        if late_seconds > _LATE_SECONDS:
            advice = f"nobody makes delayed tasks ready in time. {_NOBODY}; see wherry doctor"
        return Reason(Code.PROMOTION_LATE, text, advice, facts.run_after)
    wait = f"it may run in {span(-late_seconds)}"
    last = facts.last
    if last is not None and last.retry_at == facts.run_after:
        how = "was lost with its worker" if last.outcome == "lost" else "failed"
        error = f": {_short(last.error)}" if last.error else ""
        text = (
            f"attempt {last.attempt} of {facts.max_attempts} {how}; {wait}, as its retry policy"
            f" says{error}"
        )
        advice = f"to see the whole error: wherry tasks show {facts.id}"
        return Reason(Code.WAITS_FOR_RETRY, text, advice, facts.run_after)
    if facts.snoozes:
        text = f"its handler put it off (for the {_nth(facts.snoozes)} time); {wait}"
        return Reason(Code.SNOOZED, text, at=facts.run_after)
    return Reason(Code.DELAYED, f"its time has not come: {wait}", at=facts.run_after)


def _crew(facts: Facts) -> Iterator[Reason]:
    crew, queue = facts.crew, facts.queue
    if not crew.alive:
        text = "no worker is known to be alive"
        yield Reason(Code.NO_WORKER, text, f"start one for the queue {queue}: wherry worker APP")
    elif not crew.serve:
        one, many = "the only worker alive does not serve", "none of the {:,} workers alive serves"
        text = f"{_of(crew.alive, one, many)} the queue {queue}"
        advice = (
            f"start one: wherry worker APP --queue={quote(queue)};"
            " who serves what: wherry workers list"
        )
        yield Reason(Code.QUEUE_NOT_SERVED, text, advice)
    elif not crew.fit:
        who = _of(crew.serve, "the only worker", "none of the {:,} workers")
        knows = _of(crew.serve, "does not know", "knows")
        text = f"{who} of the queue {queue} {knows} the type {facts.type}"
        advice = (
            "start one whose App has a handler of that name: maybe the new version is not"
            " deployed yet"
        )
        yield Reason(Code.TYPE_NOT_KNOWN, text, advice)
    elif crew.drain == crew.fit:
        who = _of(crew.fit, "the only worker", "each of the {:,} workers")
        text = f"{who} that could take it was told to drain or to stop"
        yield Reason(
            Code.WORKERS_DRAIN, text, "to go on: wherry workers resume NAME, or start others"
        )


def _ready(facts: Facts, *, free: bool) -> Iterator[Reason]:
    waits = f"it has been ready since it was due, {span(facts.after(facts.run_after))} ago"
    if facts.ahead:
        n = f"{facts.ahead:,}" if facts.ahead < MOST_AHEAD else f"{MOST_AHEAD:,} or more"
        ahead = "task stands" if facts.ahead == 1 else "tasks stand"
        text = f"{n} {ahead} ahead of it in the queue (its priority is {facts.priority}); {waits}"
        advice = "more workers or slots, or a higher priority, would let it run sooner"
        yield Reason(Code.TASKS_AHEAD, text, advice, facts.run_after)
    elif free:
        text = f"it is the next of its queue; {waits}"
        advice = "a worker with a free slot takes it at once: if it stays, every slot is busy"
        yield Reason(Code.NEXT, text, advice, facts.run_after)
    if facts.attempts + 1 >= facts.max_attempts > 1:
        text = (
            f"its next attempt is its last ({facts.max_attempts} of {facts.max_attempts}): only"
            " a free slot takes"
            " it, others pass it while all are busy"
        )
        yield Reason(Code.LAST_ATTEMPT, text)


def _type_paused(facts: Facts, pauses: Sequence[TypePause]) -> Reason:
    # One pause in all queues and one in its own are two, and both have to be lifted.
    told: list[str] = []
    ways: list[str] = []
    for pause in pauses:
        by = f" by {pause.actor}" if pause.actor else ""
        said = f": {pause.reason}" if pause.reason else ""
        everywhere = " in all queues" if len(pauses) > 1 else ""
        where = f" in the queue {pause.queue}" if pause.queue else everywhere
        told.append(f"{where}{by} {span(facts.after(pause.paused_at))} ago{said}")
        queue = f" --queue={quote(pause.queue)}" if pause.queue else ""
        ways.append(f"wherry types resume{queue} {_named(facts.type)}")
    text = f"the type {facts.type} was paused{'; and'.join(told)}"
    advice = f"to go on: {'; and '.join(ways)}"
    return Reason(Code.TYPE_PAUSED, text, advice, pauses[0].paused_at)


def _full(facts: Facts, room: Room) -> Iterator[Reason]:
    most, limits = room.limits.max_running, room.limits
    if most is not None and (room.running or 0) >= most:
        held = f", held by {', '.join(room.holders)}" if room.holders else ""
        text = f"the queue {facts.queue} has {most:,} of {most:,} tasks running that it may{held}"
        advice = (
            "it is free for the next when one of them ends; for more at once:"
            f" wherry queues limits {_named(facts.queue)} --max-running N"
        )
        yield Reason(Code.LIMIT_REACHED, text, advice)
    if room.starts_in is not None and room.starts_in > 0:
        text = (
            f"the queue {facts.queue} has started what its rate allows ({limits.rate:,} in"
            f" {limits.per_seconds:g} s); the next may start in {span(room.starts_in)}"
        )
        advice = f"for more: wherry queues limits {_named(facts.queue)} --rate N/PERIOD"
        yield Reason(Code.RATE_REACHED, text, advice, facts.now + timedelta(seconds=room.starts_in))


def _named(name: str) -> str:
    # It may be an option to the command, or a command of its own to the shell.
    return f"{'-- ' if name.startswith('-') else ''}{quote(name)}"


def _of(n: int, one: str, many: str) -> str:
    return one if n == 1 else many.format(n)


def _nth(n: int) -> str:
    ending = "th" if 10 < n % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _short(error: str | None) -> str:
    line = (error or "").strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"
