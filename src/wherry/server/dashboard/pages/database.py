"""The database: what the doctor says of it, problems first, and what he measured."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from wherry.doctor.finding import Diagnosis, Verdict
from wherry.doctor.measure import Measures
from wherry.doctor.vacuum import Holder, Table
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Page, Shown, Visit
from wherry.server.dashboard.rounds import Round

# Who comes before the first look has ended waits for it so long.
_PATIENCE_SECONDS: Final = 2.0
# PostgreSQL stops writing then.
_LAST_XID: Final = 2_146_000_000
# The tables that tasks go through are always shown; of others those that hold something.
_ALWAYS: Final = frozenset({"live", "finished", "attempt", "key", "lease", "flow"})
_LITTLE_BYTES: Final = 1024 * 1024
_FEW_DEAD: Final = 1000
KINDS: Final = {
    Verdict.PROBLEM: "bad",
    Verdict.WARNING: "warn",
    Verdict.UNKNOWN: "unknown",
    Verdict.OK: "good",
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table, or (`days` not 0) all days of the finished tasks together."""

    table: Table
    days: int = 0

    @property
    def name(self) -> str:
        """Its name without quotes, as people say it."""
        return self.table.name.replace('"', "")

    @property
    def is_small(self) -> bool:
        """Whether nothing of it needs a look: it holds little, and nothing dead to speak of."""
        table = self.table
        is_known = self.name.rpartition(".")[2] in _ALWAYS
        return not is_known and table.total_bytes < _LITTLE_BYTES and table.dead < _FEW_DEAD

    @property
    def dead_share(self) -> float:
        """How many of its rows are dead."""
        return self.table.dead / max(1, self.table.dead + self.table.rows)

    @property
    def bytes_per_row(self) -> float | None:
        """What a row takes, with its indexes; None for a table with next to nothing in it."""
        return self.table.total_bytes / self.table.rows if self.table.rows >= 100 else None


async def show_database(visit: Visit) -> Shown:
    """Show what the doctor says, and his numbers."""
    visit.caller.require(Right.READ, None)
    round = await _round(visit)
    measures = round.measures if round else None
    rows = table_rows(measures.tables) if measures and measures.tables else []
    values = {
        "round": round,
        "counts": _counts(round.diagnosis if round else None),
        "findings": list(round.diagnosis.worst_first()) if round and round.diagnosis else [],
        "kinds": KINDS,
        "measures": measures,
        "rows": [row for row in rows if not row.is_small],
        "small": [row for row in rows if row.is_small],
        "total_bytes": sum(table.total_bytes for table in (measures and measures.tables) or ()),
        "holders": [(holder, _kind(holder)) for holder in (measures and measures.holders) or ()],
        "age_share": _age_share(measures),
    }
    return Shown("database.html", "Database", values)


async def _round(visit: Visit) -> Round | None:
    last = visit.rounds.last()
    if last is not None:
        return last
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await visit.rounds.next()
    except TimeoutError:
        return None


def table_rows(tables: tuple[Table, ...]) -> list[TableRow]:
    """Return the tables, the largest first; the days of the finished tasks are one."""
    days = [table for table in tables if table.is_day]
    rows = [TableRow(table) for table in tables if not table.is_day]
    if days:
        ages = [day.vacuumed_seconds for day in days if day.vacuumed_seconds is not None]
        whole = Table(
            name="finished",
            is_day=True,
            rows=sum(day.rows for day in days),
            dead=sum(day.dead for day in days),
            heap_bytes=sum(day.heap_bytes for day in days),
            index_bytes=sum(day.index_bytes for day in days),
            total_bytes=sum(day.total_bytes for day in days),
            vacuumed_seconds=min(ages, default=None),
            is_vacuumed=all(day.is_vacuumed for day in days),
            is_on=all(day.is_on for day in days),
        )
        rows.append(TableRow(whole, len(days)))
    return sorted(rows, key=lambda row: row.table.total_bytes, reverse=True)


def _counts(diagnosis: Diagnosis | None) -> dict[str, int]:
    if diagnosis is None:
        return {}
    return {KINDS[verdict]: len(diagnosis.of(verdict)) for verdict in Verdict}


def _kind(holder: Holder) -> str:
    return "bad" if holder.is_too_old else "warn" if holder.is_old else "idle"


def _age_share(measures: Measures | None) -> float | None:
    ages = measures.ages if measures else None
    return None if ages is None else max(ages.xids, ages.multixacts) / _LAST_XID


PAGES = (Page("database", show_database, nav="database"),)
