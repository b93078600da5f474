"""Everything that is known of a run when it is over, for the checker to judge.

Three witnesses that do not trust one another: what the processes say (history), what the triggers
saw (audit, read as lives), and what is in the tables in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.nemesis import audit, history, lives
from tests.nemesis.cast import Ended
from tests.nemesis.history import Call, Note
from tests.nemesis.lives import Fence, Life, Row, Step


@dataclass(frozen=True, slots=True)
class Report:
    """One answer to one report, whoever asked."""

    who: str
    verb: str
    fence: Fence
    answer: str
    asked_at: float
    told_at: float


@dataclass(frozen=True, slots=True)
class Wish:
    """One task that somebody asked for, and what came of it."""

    call: Call
    task: dict[str, Any]
    id: int | None = None
    created: bool | None = None
    matches: bool | None = None

    @property
    def nonce(self) -> str:
        """What its payload is told by."""
        return str(self.task["payload"]["nonce"])


@dataclass(slots=True)
class Evidence:
    """What the witnesses say."""

    lives: dict[int, Life]
    entries: list[audit.Entry]
    calls: list[Call]
    notes: list[Note]
    states: dict[int, str]
    transfers: list[tuple[int, int, str, int, int, int]]
    balances: dict[int, int]
    schedules: list[Row]
    ticks: list[Row]
    ended: list[Ended]
    faults: Counter[str]
    left_over: list[str]
    server_log: str

    def steps(self) -> Iterator[tuple[Life, Step]]:
        """Return every step of every life."""
        for life in self.lives.values():
            for step in life.steps:
                yield life, step

    def of(self, what: str, end: str | None = None) -> Iterator[Call]:
        """Return the calls of one kind, that ended so."""
        return (c for c in self.calls if c.what == what and end in (None, c.end))

    def noted(self, what: str) -> Iterator[Note]:
        """Return the notes of one kind."""
        return (note for note in self.notes if note.what == what)

    def wishes(self) -> Iterator[Wish]:
        """Return every task that was asked for, by whatever call."""
        for call in self.calls:
            if call.what == "enqueue":
                told = call.told
                yield Wish(
                    call, call.asked, told.get("id"), told.get("created"), told.get("matches")
                )
            elif call.what == "enqueue_many":
                tasks = call.asked["tasks"]
                answers = call.told.get("answers") or [()] * len(tasks)
                for task, answer in zip(tasks, answers, strict=True):
                    yield Wish(call, task, *answer)

    def reports(self) -> Iterator[Report]:
        """Return every answer to a report: the workers' notes and the hand's calls."""
        for note in self.noted("reported"):
            fence = fence_of(note.said["fence"])
            yield Report(note.who, note.said["verb"], fence, note.said["answer"], note.at, note.at)
        for call in self.of("report", "told"):
            fence = fence_of(call.asked["fence"])
            verb = call.asked["verb"]
            yield Report(call.who, verb, fence, call.told["answer"], call.asked_at, call.ended_at)

    def begins(self) -> dict[Fence, Step]:
        """Return the step at which each lease began."""
        return {step.fence: step for _, step in self.steps() if step.is_lease and step.fence}

    def ends(self) -> dict[Fence, Step]:
        """Return the step at which each lease ended."""
        return {step.fence: step for _, step in self.steps() if step.leaves_lease and step.fence}


def fence_of(said: list[Any]) -> Fence:
    """Return a fence as the histories have it."""
    id_, token, lease_id = said
    return int(id_), int(token), str(lease_id)


def gather(
    folder: Path,
    connection: psycopg.Connection[Any],
    *,
    ended: list[Ended],
    faults: Counter[str],
    left_over: list[str],
    server_log: str,
) -> Evidence:
    """Return what all witnesses say."""
    entries = list(audit.read(connection))
    calls, notes = history.read(folder)
    rows = connection.execute("select id, state from wherry.tasks where queue <> 'bulk'").fetchall()
    transfers = connection.execute(
        "select task_id, token, lease_id, source, target, amount from bank.transfer"
    ).fetchall()
    balances = connection.execute("select id, balance from bank.account").fetchall()
    schedules = connection.execute("select to_jsonb(s) from wherry.schedule s").fetchall()
    ticks = connection.execute(
        "select to_jsonb(t) from wherry.tick t order by schedule, planned_at, by_hand"
    ).fetchall()
    return Evidence(
        lives.read(entries), entries, calls, notes, dict(rows), transfers, dict(balances),
        [row for (row,) in schedules], [row for (row,) in ticks], ended, faults, left_over,
        server_log,
    )  # fmt: skip
