"""Reads the audit as lives: for each task the steps it took, one for each transaction.

A row that leaves one table and enters the other in one transaction is one step. What cannot be read
as any step the product may take becomes the step `odd`, which the checker reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.nemesis.audit import Entry

Row = dict[str, Any]
Fence = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction's effect on one task.

    `kind`: born, moved (within live), ended, requeued, purged, resent (an enqueue that was sent
    again after its task had ended, and took itself back), or odd. `attempt` is the row of history
    that the same transaction wrote, `lease_end` until when the task was leased before this step.
    """

    kind: str
    n: int
    at: float
    said_at: float
    transaction: int
    application: str
    old: Row | None
    new: Row | None
    attempt: Row | None
    lease_end: float | None

    @property
    def is_lease(self) -> bool:
        """Whether the task was leased here."""
        return self.was != "leased" and self.state == "leased"

    @property
    def was(self) -> str | None:
        """The state before."""
        return None if self.old is None else str(self.old["state"])

    @property
    def state(self) -> str | None:
        """The state after."""
        return None if self.new is None else str(self.new["state"])

    @property
    def is_reap(self) -> bool:
        """Whether a reaper took the task back."""
        return self.attempt is not None and self.attempt["outcome"] == "lost"

    @property
    def leaves_lease(self) -> bool:
        """Whether an attempt ended here."""
        return self.was == "leased" and self.state != "leased"

    @property
    def fence(self) -> Fence | None:
        """The lease that this step began or ended."""
        row = self.new if self.is_lease else self.old
        if row is None or row["lease_id"] is None:
            return None
        return int(row["id"]), int(row["token"]), str(row["lease_id"])

    def __str__(self) -> str:
        row = self.new or self.old or {}
        return (
            f"  {self.n:>7} {self.at % 1000:8.3f} {self.kind:8} {self.was} -> {self.state}"
            f" token={row.get('token')} attempts={row.get('attempts')}"
            f" lease={str(row.get('lease_id'))[:8]} by {self.application!r}"
            f" lease_end={(self.lease_end or 0) % 1000:.3f}"
            f"{'' if self.attempt is None else ' attempt ' + self.attempt['outcome']}"
        )


@dataclass(slots=True)
class Life:
    """Every step of one task, in order."""

    id: int
    steps: list[Step] = field(default_factory=list)

    @property
    def type(self) -> str:
        """The task's type, without its module."""
        return str(self._row["type"]).rpartition(".")[2]

    @property
    def payload(self) -> Row:
        """The task's payload."""
        return dict(self._row["payload"])

    @property
    def queue(self) -> str:
        """The task's queue."""
        return str(self._row["queue"])

    @property
    def key(self) -> str | None:
        """The task's key."""
        key = self._row["key"]
        return None if key is None else str(key)

    @property
    def headers(self) -> Row:
        """The task's headers."""
        return dict(self._row["headers"] or {})

    @property
    def last(self) -> Step:
        """The last step that left something behind."""
        return [step for step in self.steps if step.kind != "resent"][-1]

    @property
    def _row(self) -> Row:
        row = self.steps[0].new or self.steps[0].old
        assert row is not None
        return row

    def __str__(self) -> str:
        return "\n".join([f"task {self.id} ({self.type}) {self.payload}", *map(str, self.steps)])


class Leases:
    """Until when each task is leased, as far as the entries read so far tell."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[float, frozenset[int] | None]]] = defaultdict(list)

    def add(self, entry: Entry) -> None:
        """Take in a row version of a lease."""
        if entry.new is not None:
            ids = frozenset(entry.new["task_ids"]) if entry.new["split"] else None
            part = (instant(entry.new["expires_at"]), ids)
            self._parts[entry.new["lease_id"]].append(part)

    def end(self, lease_id: str | None, task_id: int) -> float | None:
        """Return the latest end that a row has given to this task; ends never move back."""
        parts = self._parts.get(lease_id or "", [])
        return max((end for end, ids in parts if ids is None or task_id in ids), default=None)


def instant(text: str) -> float:
    """Return the seconds of the epoch of a timestamp as JSON has it."""
    return datetime.fromisoformat(text).timestamp()


def read(entries: Iterable[Entry]) -> dict[int, Life]:
    """Return the life of every task that the audit has seen."""
    attempts: dict[tuple[int, int], Row] = {}
    groups: dict[tuple[int, int], list[Entry]] = defaultdict(list)
    ends: dict[int, float | None] = {}
    leases = Leases()
    for entry in entries:
        match entry.place:
            case "lease":
                leases.add(entry)
            case "attempt":
                if entry.new is not None:
                    attempts[entry.transaction, entry.new["task_id"]] = entry.new
            case _:
                id_ = int(entry.row["id"])
                groups[entry.transaction, id_].append(entry)
                if entry.old is not None:
                    ends[entry.n] = leases.end(entry.old.get("lease_id"), id_)
    lives: dict[int, Life] = {}
    # In the order of their first entries, which is the order of the row locks.
    for (transaction, id_), group in groups.items():
        life = lives.setdefault(id_, Life(id_))
        life.steps.append(_step(group, attempts.get((transaction, id_)), ends))
    return lives


def _step(group: list[Entry], attempt: Row | None, ends: dict[int, float | None]) -> Step:
    changes = [(entry.place, entry.old is not None, entry.new is not None) for entry in group]
    kind, old, new = "odd", group[0].old, group[-1].new
    match sorted(changes):
        case [("live", False, True)]:
            kind = "born"
        case [("live", True, True)]:
            kind = "moved"
        case [("finished", False, True), ("live", True, False)]:
            kind = "ended"
        case [("finished", True, False), ("live", False, True)]:
            kind = "requeued"
        case [("finished", True, False)]:
            kind = "purged"
        case [("live", False, True), ("live", True, False)]:
            kind, old, new = "resent", None, None
        case _:
            pass
    if kind in ("ended", "requeued"):
        # The two tables are written in no certain order.
        [old] = [entry.old for entry in group if entry.old is not None]
        [new] = [entry.new for entry in group if entry.new is not None]
    first = group[0]
    end = next((ends[entry.n] for entry in group if entry.n in ends), None)
    return Step(
        kind, first.n, first.at, first.said_at, first.transaction, first.application, old, new,
        attempt, end,
    )  # fmt: skip
