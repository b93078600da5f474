"""What is promised of schedules: a task for each of their times, and none of them forgotten.

The times of those here are known without the product's own reading of expressions: they come every
so many seconds. Schedulers die, stop and lose their database like everybody else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tests.nemesis.evidence import Evidence
from tests.nemesis.lives import Life, Row, instant
from tests.nemesis.tasks import ALONE, PERIODS
from wherry.domain.schedule import PLANNED_HEADER, SCHEDULE_HEADER

# How the schedule's own row counts each outcome.
_COUNTED = {
    "fired": "fired",
    "missed": "missed_ticks",
    "overlapped": "overlapped",
    "paused": "paused_ticks",
    "by_hand": "by_hand_runs",
}


def one_task_for_each_time(evidence: Evidence) -> Iterator[str]:
    """S1: each time that fired has one task, which says so, and no other time has any."""
    fired = {
        (tick["schedule"], instant(tick["planned_at"])): int(tick["task_id"])
        for tick in evidence.ticks
        if tick["outcome"] == "fired"
    }
    tasks: defaultdict[tuple[str, float], list[int]] = defaultdict(list)
    for name, life in _scheduled(evidence):
        planned = life.headers.get(PLANNED_HEADER)
        if planned is not None:
            tasks[name, instant(planned)].append(life.id)
    for (name, at), ids in tasks.items():
        if len(ids) > 1:
            yield f"schedule {name} has brought {len(ids)} tasks for {at}: {ids}"
        if fired.get((name, at)) not in ids:
            yield f"schedule {name} says task {fired.get((name, at))} for {at}, there are {ids}"
    for (name, at), id_ in fired.items():
        if (name, at) not in tasks:
            yield f"schedule {name} says task {id_} for {at}, and there is none"


def every_time_is_seen_to(evidence: Evidence) -> Iterator[str]:
    """S2: fired, missed, overlapped and paused are together every time that was planned, once."""
    ticks: defaultdict[str, list[Row]] = defaultdict(list)
    counted: Counter[tuple[str, str]] = Counter()
    for tick in evidence.ticks:
        counted[tick["schedule"], tick["outcome"]] += tick["n"]
        if not tick["by_hand"]:
            ticks[tick["schedule"]].append(tick)
    for schedule in evidence.schedules:
        name = schedule["name"]
        period = PERIODS[name]
        until: float | None = None
        for tick in ticks[name]:
            planned = instant(tick["planned_at"])
            if until is None and planned > instant(schedule["created_at"]) + period:
                yield f"schedule {name} begins late: {schedule['created_at']}, {tick}"
            if planned % period or until not in (None, planned - period):
                yield f"schedule {name}: nothing, or too much, from {until} to {tick}"
            until = instant(tick["until_at"])
            if tick["n"] != (until - planned) / period + 1:
                yield f"schedule {name}: not {tick['n']} times in {tick}"
        if ticks[name] and instant(schedule["last_at"]) != until:
            yield f"schedule {name} ends with {ticks[name][-1]}, and says {schedule['last_at']}"
        for outcome, column in _COUNTED.items():
            if schedule[column] != counted[name, outcome]:
                yield (
                    f"schedule {name} counts {schedule[column]} times {outcome}, there are"
                    f" {counted[name, outcome]}"
                )


def what_is_to_be_alone_is(evidence: Evidence) -> Iterator[str]:
    """S2: no task of a schedule that must not overlap comes before the last one has ended."""
    before: Life | None = None
    for name, life in sorted(_scheduled(evidence), key=lambda found: found[1].steps[0].n):
        if name != ALONE:
            continue
        if before is not None and (before.last.kind != "ended" or before.last.n > life.steps[0].n):
            yield f"schedule {name}: {life}\ncame before the end of {before}"
        before = life


def runs_by_hand_are_there(evidence: Evidence) -> Iterator[str]:
    """W1, S1: who ran a schedule by hand was told of a task that is there, and remembered."""
    by_hand = {tick["task_id"] for tick in evidence.ticks if tick["by_hand"]}
    for call in evidence.of("run a schedule", "told"):
        id_ = call.told["id"]
        if id_ is not None and (id_ not in evidence.lives or id_ not in by_hand):
            yield f"task {id_} was told to {call.who}, and is not there, or not remembered"
    for name, life in _scheduled(evidence):
        if PLANNED_HEADER not in life.headers and life.id not in by_hand:
            yield f"schedule {name} was not run by hand for\n{life}"


def _scheduled(evidence: Evidence) -> Iterator[tuple[str, Life]]:
    for life in evidence.lives.values():
        name = life.headers.get(SCHEDULE_HEADER)
        if name is not None:
            yield str(name), life


PROMISES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "S1 one task for each time": one_task_for_each_time,
    "S1 runs by hand are there": runs_by_hand_are_there,
    "S2 every time is seen to": every_time_is_seen_to,
    "S2 what is to be alone is": what_is_to_be_alone_is,
}
