"""Checks of the work itself: whether somebody does it, how long it waits, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, warning
from wherry.doctor.patient import Patient
from wherry.doctor.wording import count_up_to, names, waits
from wherry.domain.counting import count
from wherry.domain.durations import span
from wherry.domain.worker import WorkerSeen

# Reapers come every 2 s, promoters every second or five.
_UNREAPED_SECONDS: Final = 60.0
_LATE_SECONDS, _TOO_LATE_SECONDS = 300.0, 3600.0
_PARKED_SECONDS: Final = 3600.0
_MOST_LANES: Final = 20
_MOST_COUNTED: Final = 10_000
_MOST_LEASES: Final = 1000
_FEW_DEAD, _RISING = 10, 2
# A lost connection is back within seconds; what is not for so long is in the way.
_DEAF_SECONDS: Final = 60.0
_NOBODY: Final = (
    "start a worker or a server: each keeps the queues in order; if one runs, its log says what is"
    " in the way"
)


def judge_leases(rows: Rows) -> Judgment:
    """Whether leases that ran out are taken back."""
    [[leases, oldest_seconds, workers]] = rows
    if not leases:
        return fine("none has run out without being taken back")
    those = f"{count_up_to(_MOST_LEASES, leases, 'lease')} of {names(sorted(workers))}"
    return problem(
        f"{those} ran out, the oldest {span(oldest_seconds)} ago, and nobody took it back",
        f"{_NOBODY}: often a transaction that completes a task and was left open",
    )


def judge_lateness(rows: Rows) -> Judgment:
    """Whether the oldest due task has waited too long."""
    if not rows:
        return fine("no task waits for a worker")
    queue, priority, late_seconds = rows[0]
    lane = f"queue {queue!r}" + (f" at priority {priority}" if priority else "")
    said = f"the oldest due task has waited for {span(late_seconds)}, in {lane}"
    if late_seconds < _LATE_SECONDS:
        return fine(said)
    others = sum(late >= _LATE_SECONDS for _, _, late in rows[1:])
    if others:
        said += f"; {count(others, 'other')} {'is' if others == 1 else 'are'} late, too"
    return (problem if late_seconds >= _TOO_LATE_SECONDS else warning)(
        said,
        "give the queue more workers or slots; see what it holds: wherry queues list, and who"
        " serves it: wherry workers list",
    )


def judge_promotion(rows: Rows) -> Judgment:
    """Whether delayed tasks become ready when they are due."""
    if not rows:
        return fine("no task waits for its time")
    [[late_seconds]] = rows
    if late_seconds < _UNREAPED_SECONDS:
        return fine("delayed tasks become ready in time")
    return problem(
        f"a delayed task has been due for {span(late_seconds)} and is not ready", _NOBODY
    )


def judge_parked(rows: Rows) -> Judgment:
    """Whether tasks wait for a worker that knows their type."""
    if not rows:
        return fine("no task waits for a worker that knows its type")
    tasks = sum(row[2] for row in rows)
    types = [f"{type_!r} ({n:,} in {names(queues)})" for type_, queues, n, _ in rows]
    is_old = max(row[3] for row in rows) >= _PARKED_SECONDS
    return (problem if is_old else warning)(
        f"{count_up_to(_MOST_COUNTED, tasks, 'task')} {waits(tasks)} for a worker that knows"
        f" the type: {names(types)}",
        "start a worker whose App knows it: was its module left out of imports=[…], or the type"
        " renamed? What nobody will run is canceled by: wherry tasks cancel --type NAME",
    )


def judge_pauses(rows: Rows) -> Judgment:
    """Whether tasks wait in queues that somebody paused."""
    waiting = [row for row in rows if row[1]]
    if not waiting:
        none = "no queue is paused"
        return fine(none if not rows else f"paused and empty: {names([row[0] for row in rows])}")
    queue, tasks, paused_seconds, actor, reason = waiting[0]
    by = f" by {actor}" if actor else ""
    why = f": {reason}" if reason else ""
    others = f"; and {count(len(waiting) - 1, 'other')}" if len(waiting) > 1 else ""
    return warning(
        f"queue {queue!r} was paused {span(paused_seconds)} ago{by}{why}, and"
        f" {count_up_to(_MOST_COUNTED, tasks, 'ready task')} {waits(tasks)} there{others}",
        f"if that is over: wherry queues resume -- {quote(queue)}",
    )


def judge_type_pauses(rows: Rows) -> Judgment:
    """Whether tasks wait since somebody paused their type."""
    waiting = [row for row in rows if row[2]]
    if not waiting:
        none = "no type is paused"
        types = [repr(row[0]) for row in rows]
        return fine(none if not rows else f"paused, and no task is set aside: {names(types)}")
    type_, queue, tasks, paused_seconds, actor, reason = waiting[0]
    there = f" in queue {queue!r}" if queue else ""
    by = f" by {actor}" if actor else ""
    why = f": {reason}" if reason else ""
    others = f"; and {count(len(waiting) - 1, 'other')}" if len(waiting) > 1 else ""
    of = f" --queue={quote(queue)}" if queue else ""
    return warning(
        f"type {type_!r} was paused {span(paused_seconds)} ago{there}{by}{why}, and"
        f" {count_up_to(_MOST_COUNTED, tasks, 'task')} {waits(tasks)} for that{others}",
        f"if that is over: wherry types resume{of} -- {quote(type_)}",
    )


def judge_workers(workers: Sequence[WorkerSeen], ready: Sequence[str]) -> Judgment:
    """Whether each queue with ready tasks has a worker, and whether workers went without a word."""
    alive = [worker for worker in workers if worker.alive]
    served = {queue for worker in alive for queue in worker.queues or ()}
    serves_all = any(worker.queues is None for worker in alive)
    unserved = [] if serves_all else [queue for queue in ready if queue not in served]
    if unserved:
        who = "no worker is alive" if not alive else "no live worker serves them"
        return problem(
            f"{who}, and tasks are ready in {names([repr(queue) for queue in unserved])}",
            "start one: wherry worker APP --queues NAMES",
        )
    living = {worker.name for worker in alive}
    # One that started again under its old name is not missed.
    gone = sorted({worker.name for worker in workers} - living)
    if gone:
        return warning(
            f"in the last day {count(len(gone), 'worker')} fell silent without a goodbye:"
            f" {names(gone)}; {len(alive)} live",
            "see why in its log or its supervisor's: killed for its memory, a crash, a lost"
            " network? What it held runs elsewhere. The listing forgets it a day later",
        )
    return fine(
        f"{count(len(alive), 'worker')} live" if alive else "none is there, and none needed"
    )


def judge_listeners(workers: Sequence[WorkerSeen]) -> Judgment:
    """Whether live workers hear of new tasks at once, where they should."""
    deaf = [
        (worker.deaf_seconds, worker.name)
        for worker in workers
        if worker.alive and (worker.deaf_seconds or 0.0) >= _DEAF_SECONDS
    ]
    if not deaf:
        return fine("no worker has lost its notifications")
    who = sorted({name for _, name in deaf})
    longest = span(max(seconds for seconds, _ in deaf if seconds is not None))
    hear = "hears" if len(who) == 1 else "hear"
    return warning(
        f"{count(len(who), 'worker')} {hear} no notification, for {longest} by now:"
        f" {names(who)}; tasks are found by polling, so they begin later",
        "its log, or its server's, says why it is not listening: a pooler in transaction mode"
        " (connect past it, or start with --no-listen), no connection left, or the network",
    )


def judge_deaths(rows: Rows) -> Judgment:
    """Whether more tasks end badly than before."""
    last_hour, hour_before = (sum(row[n] for row in rows) for n in (1, 2))
    said = (
        f"{count(last_hour, 'task')} ended badly in the last hour,"
        f" {hour_before:,} in the hour before"
    )
    if last_hour < _FEW_DEAD or last_hour < hour_before * _RISING:
        return fine(said)
    types = [f"{type_} ({n:,})" for type_, n, _ in rows if n]
    return warning(
        f"{said}: {names(types)}",
        "see why: wherry dead list; once it is mended: wherry dead requeue --type NAME",
    )


def _look_at_workers(patient: Patient) -> Judgment:
    workers = [WorkerSeen.of_row(row) for row in patient.rows("workers/list_workers")]
    ready = [queue for (queue,) in patient.rows("queues/list_ready_queues")]
    return judge_workers(workers, ready)


def _look_at_listeners(patient: Patient) -> Judgment:
    rows = patient.rows("workers/list_workers")
    return judge_listeners([WorkerSeen.of_row(row) for row in rows])


CHECKS: Final = (
    Check("workers", _look_at_workers),
    Check("listeners", _look_at_listeners),
    Check("due tasks", asked("list_late_lanes", judge_lateness, most=_MOST_LANES)),
    Check("delayed tasks", asked("read_promotion", judge_promotion)),
    Check(
        "leases",
        asked(
            "read_expired_leases",
            judge_leases,
            since_seconds=_UNREAPED_SECONDS,
            most=_MOST_LEASES,
        ),
    ),
    Check("unknown types", asked("list_parked_types", judge_parked, most=_MOST_COUNTED)),
    Check("paused queues", asked("list_paused_queues", judge_pauses, most=_MOST_COUNTED)),
    Check("paused types", asked("list_type_pauses", judge_type_pauses, most=_MOST_COUNTED)),
    Check("dead tasks", asked("read_deaths", judge_deaths)),
)
