"""What is wrong, the worst first: from what queues and workers say now, and from the doctor.

What can be seen from the lists that the page has anyway is judged here, by the doctor's own rules,
and is true to two seconds; the rest is what the doctor said on his last round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from wherry.doctor.finding import Verdict
from wherry.doctor.schedules import judge_schedules
from wherry.doctor.work import judge_lateness, judge_listeners, judge_pauses, judge_workers
from wherry.domain.flow import OTHER, Lines
from wherry.domain.schedule import ScheduleSeen
from wherry.domain.task import QueueDepth
from wherry.domain.type_pauses import where
from wherry.domain.worker import WorkerSeen
from wherry.server.dashboard.pauses import TypePauses, most_waiting_first
from wherry.server.dashboard.rounds import Round
from wherry.server.dashboard.words import number, plural, span

# What of the doctor's checks is judged here, from fresher numbers.
_JUDGED_HERE: Final = frozenset(
    {"workers", "listeners", "due tasks", "paused queues", "paused types", "schedules"}
)
# Where a finding of the doctor leads; all others lead to the database.
_LEADS: Final = {
    "dead tasks": "dead",
    "leases": "workers",
    "delayed tasks": "workers",
    "unknown types": "queues",
}
_KINDS: Final = {Verdict.PROBLEM: "bad", Verdict.WARNING: "warn", Verdict.UNKNOWN: "unknown"}
# A queue grows if this many more came than went in the last minutes, and that is a tenth of all.
_GROWN_TASKS: Final = 60
_GROWN_SHARE: Final = 0.1
_GROWN_MINUTES: Final = 10
# So many of one sort are told by name: three hundred queues that are behind must not hide the rest.
_OF_ONE_SORT: Final = 3
# The sorts of which there can be many, as one says it of several.
_SORTS: Final = {
    "behind": "queues are behind",
    "paused": "queues are paused",
    "growing": "queues are growing",
    "type paused": "types are paused",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong: `kind` is bad, warn or unknown; `page` and `asked` lead there.

    `sort` says of what there can be many; a trouble that stands for several has their number in
    `things`.
    """

    kind: str
    name: str
    seen: str
    advice: str
    page: str
    asked: tuple[tuple[str, str], ...] = ()
    where: str = "Look"
    sort: str = ""
    things: int = 1

    @property
    def weight(self) -> int:
        """The worst first."""
        return ("bad", "warn", "unknown").index(self.kind)


def troubles(
    *,
    queues: Sequence[QueueDepth],
    workers: Sequence[WorkerSeen],
    schedules: Sequence[ScheduleSeen] = (),
    pauses: TypePauses,
    lines: Lines,
    round: Round | None,
    now: datetime,
    pages: frozenset[str],
) -> list[Trouble]:
    """Return what is wrong. A trouble leads to a page of *pages*, or else to its list.

    Of one sort the first few are told, and how many there are besides.
    """
    found = [
        *_of_queues(queues, now),
        *_of_workers(workers, queues),
        *_of_schedules(schedules, now),
    ]
    behind = {trouble.asked: n for n, trouble in enumerate(found) if trouble.page == "queue"}
    for growing in _growing(lines, {queue.queue: queue for queue in queues}):
        n = behind.get(growing.asked)
        if n is None:
            found.append(growing)
        else:
            # One queue, one trouble: it is behind, and it gets worse.
            found[n] = replace(
                found[n],
                name=f"{growing.asked[0][1]} is behind, and growing",
                seen=f"{found[n].seen} {growing.seen}",
            )
    found += _of_type_pauses(pauses, now)
    found += _of_round(round, pages)
    return sorted(_gathered(found), key=lambda trouble: trouble.weight)


def _gathered(found: Iterable[Trouble]) -> Iterable[Trouble]:
    alike: dict[tuple[str, str], list[Trouble]] = {}
    for n, trouble in enumerate(found):
        key = (trouble.sort, trouble.kind) if trouble.sort else ("", str(n))
        alike.setdefault(key, []).append(trouble)
    for same in alike.values():
        # Nothing is shorter for one that is left.
        shown = _OF_ONE_SORT if len(same) > _OF_ONE_SORT + 1 else len(same)
        yield from same[:shown]
        more = len(same) - shown
        if more:
            yield Trouble(
                same[0].kind,
                f"{number(more)} more {_SORTS[same[0].sort]}",
                "The list has them all, what is wrong first.",
                "",
                "queues",
                (),
                "See queues",
                things=more,
            )


def _of_queues(queues: Iterable[QueueDepth], now: datetime) -> Iterable[Trouble]:
    late = sorted(
        (queue for queue in queues if queue.oldest_due_seconds is not None),
        key=lambda queue: -(queue.oldest_due_seconds or 0),
    )
    for queue in late:
        if queue.paused_at is not None:
            continue
        verdict, _, _ = judge_lateness([(queue.queue, 0, queue.oldest_due_seconds)])
        if verdict is Verdict.OK:
            break
        waited = span(queue.oldest_due_seconds)
        yield Trouble(
            _KINDS[verdict],
            f"{queue.queue} is behind",
            f"The oldest due task has waited for {waited};"
            f" {plural(queue.ready, 'task')} ready, {number(queue.leased)} running.",
            "Give the queue more workers or slots, or see why its tasks take long.",
            "queue",
            (("name", queue.queue),),
            "Open queue",
            sort="behind",
        )
    for queue in queues:
        if queue.paused_at is None or not queue.ready:
            continue
        judged = judge_pauses(
            [(queue.queue, queue.ready, (now - queue.paused_at).total_seconds(), None, None)]
        )
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        why = f": {queue.pause_reason}" if queue.pause_reason else "."
        yield Trouble(
            _KINDS[judged.verdict],
            f"{queue.queue} is paused",
            f"{plural(queue.ready, 'task')} ready; paused"
            f" {span((now - queue.paused_at).total_seconds())} ago{by}{why}",
            "If that is over, resume it.",
            "queue",
            (("name", queue.queue),),
            "Open queue",
            sort="paused",
        )


def _of_type_pauses(pauses: TypePauses, now: datetime) -> Iterable[Trouble]:
    for pause in most_waiting_first(pauses):
        waiting = pauses.waiting(pause)
        if not waiting:
            return
        by = f" by {pause.paused_by}" if pause.paused_by else ""
        why = f": {pause.reason}" if pause.reason else "."
        is_everywhere = pause.queue is None
        yield Trouble(
            "warn",
            f"{pause.type} is paused {where(pause)}",
            f"{plural(waiting, 'task')} of this type {'waits' if waiting == 1 else 'wait'}; paused"
            f" {span((now - pause.paused_at).total_seconds())} ago{by}{why}",
            "If that is over, resume the type.",
            "queues" if is_everywhere else "queue",
            () if pause.queue is None else (("name", pause.queue),),
            "See queues" if is_everywhere else "Open queue",
            sort="type paused",
        )


def _of_workers(workers: Sequence[WorkerSeen], queues: Sequence[QueueDepth]) -> Iterable[Trouble]:
    ready = [
        queue.queue
        for queue in queues
        if queue.ready and queue.paused_at is None and queue.queue != OTHER
    ]
    there = judge_workers(workers, ready)
    name = "Nobody serves a queue" if there.verdict is Verdict.PROBLEM else "Workers are gone"
    for judged, named in ((there, name), (judge_listeners(workers), "Listener down")):
        if judged.verdict is Verdict.OK:
            continue
        yield Trouble(
            _KINDS[judged.verdict],
            named,
            _sentence(judged.seen),
            _sentence(judged.advice or ""),
            "workers",
            (),
            "See workers",
        )


def _of_schedules(schedules: Sequence[ScheduleSeen], now: datetime) -> Iterable[Trouble]:
    judged = judge_schedules(
        [
            (
                seen.name,
                seen.late_seconds(now),
                seen.trouble,
                seen.paused_at is None and not seen.by_hand and not seen.declared_by,
                seen.paused_at is not None,
            )
            for seen in schedules
        ]
    )
    if judged.verdict is Verdict.OK:
        return
    wrong = judged.verdict is Verdict.PROBLEM
    yield Trouble(
        _KINDS[judged.verdict],
        "Schedules do not come" if wrong else "Nobody declares a schedule",
        _sentence(judged.seen),
        _sentence(judged.advice or ""),
        "schedules",
        (),
        "See schedules",
    )


def _growing(lines: Lines, queues: dict[str, QueueDepth]) -> Iterable[Trouble]:
    minutes = max(1, round(_GROWN_MINUTES * 60 / lines.width_seconds))
    for name, line in sorted(lines.lines.items()):
        depth = queues.get(name)
        if depth is None or depth.paused_at is not None or not depth.ready:
            continue
        # The newest point is not over yet.
        points = line.points[-minutes - 1 : -1]
        came = sum(point.came for point in points)
        went = sum(point.succeeded + point.bad for point in points)
        grown = came - went
        if grown < max(_GROWN_TASKS, came * _GROWN_SHARE) or depth.ready < grown * _GROWN_SHARE:
            continue
        seconds = len(points) * lines.width_seconds
        yield Trouble(
            "warn",
            f"{name} is growing",
            f"In the last {span(seconds)}, {number(came)} came and {number(went)} ended.",
            "More slots help if its workers are busy; if they are not, see what fails there.",
            "queue",
            (("name", name),),
            "Open queue",
            sort="growing",
        )


def _of_round(round: Round | None, pages: frozenset[str]) -> Iterable[Trouble]:
    if round is None:
        return
    if round.diagnosis is None:
        yield Trouble(
            "unknown",
            "The doctor could not look",
            _sentence(round.trouble or ""),
            "What is said here may not be all.",
            "",
        )
        return
    for finding in round.diagnosis.worst_first():
        kind = _KINDS.get(finding.verdict)
        # What one could not look at is for the page of the database, not for three in the morning.
        if kind is None or kind == "unknown" or finding.check in _JUDGED_HERE:
            continue
        page = _LEADS.get(finding.check, "database")
        yield Trouble(
            kind,
            finding.check[:1].upper() + finding.check[1:],
            _sentence(finding.seen),
            _sentence(finding.advice or ""),
            page if page in pages else "",
        )


def _sentence(text: str) -> str:
    """Return a line of the doctor's as a sentence."""
    whole = text[:1].upper() + text[1:]
    return whole if not whole or whole[-1] in ".!?" else f"{whole}."
