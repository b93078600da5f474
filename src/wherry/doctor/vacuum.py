"""Checks of what PostgreSQL has to clear away, and of who keeps it from that.

Dead rows are harmless until somebody holds an old snapshot: then nothing that died since can be
removed, and what is small and busy grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, unknown, warning
from wherry.doctor.wording import names, size, statement
from wherry.domain.counting import count
from wherry.domain.durations import span
from wherry.domain.names import quote_literal

_MOST_HOLDERS: Final = 5
_LONG_SECONDS, _TOO_LONG_SECONDS = 300.0, 3600.0
_OLD_XIDS, _TOO_OLD_XIDS = 100_000, 2_000_000
# PostgreSQL begins to warn, and to vacuum at any cost, at 1,600 million; it stops at 2,146.
_WORN_XIDS, _WORN_OUT_XIDS = 1_000_000_000, 1_600_000_000
_DEAD_ROWS, _TOO_MANY_DEAD_ROWS = 20_000, 1_000_000
_BLOATED_BYTES: Final = 128 * 1024**2
_HEAP_BYTES_PER_ROW, _INDEX_BYTES_PER_ROW = 16_384, 4096
_FULL, _TOO_FULL = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds vacuum back; the fields are those of a row of `list_holders`, after `hidden`."""

    kind: str
    name: str
    xids: int
    seconds: float | None
    role: str | None
    application: str | None
    state: str | None
    statement: str | None

    @property
    def is_old(self) -> bool:
        """Whether it should be looked at."""
        return self.xids >= _OLD_XIDS or (self.seconds or 0.0) >= _LONG_SECONDS

    @property
    def is_too_old(self) -> bool:
        """Whether it does harm."""
        return self.xids >= _TOO_OLD_XIDS or (self.seconds or 0.0) >= _TOO_LONG_SECONDS

    @property
    def who(self) -> str:
        """What it is, in words."""
        match self.kind:
            case "prepared":
                return f"the prepared transaction {self.name!r} of role {self.role}"
            case "slot":
                return f"the {self.state} replication slot {self.name!r}"
            case "standby":
                return f"the standby {self.application or self.name!r}, by hot_standby_feedback,"
            case _:
                application = f"application {self.application}" if self.application else None
                said = filter(None, (application, f"role {self.role}", self.state))
                return f"session {self.name} ({', '.join(said)})"

    @property
    def advice(self) -> str:
        """What to do about it."""
        match self.kind:
            case "prepared":
                gid = quote_literal(self.name).strip()
                return f"settle it: commit prepared {gid}, or rollback prepared {gid}"
            case "slot":
                slot = quote_literal(self.name).strip()
                return (
                    f"let its reader catch up, or drop it: select pg_drop_replication_slot({slot})"
                )
            case "standby":
                return "look for a long transaction on that standby, and end it there"
            case _:
                return (
                    f"end it: select pg_terminate_backend({self.name}); that none comes again, set"
                    " idle_in_transaction_session_timeout, and statement_timeout for reports"
                )


def judge_holders(rows: Rows) -> Judgment:
    """Whether somebody has kept vacuum from its work for long."""
    hidden: int = rows[0][0]
    holders = [Holder(*row[1:]) for row in rows if row[1] is not None]
    old = sorted((h for h in holders if h.is_old), key=lambda h: not h.is_too_old)
    if old:
        worst = old[0]
        since = "" if worst.seconds is None else f" for {span(worst.seconds)}"
        what = statement(worst.statement)
        others = f"; and {count(len(old) - 1, 'other')}" if len(old) > 1 else ""
        seen = (
            f"{worst.who} has kept vacuum from removing dead rows{since},"
            f" {count(worst.xids, 'transaction')} by now{f': {what}' if what else ''}{others}"
        )
        return (problem if worst.is_too_old else warning)(seen, worst.advice)
    if hidden:
        return unknown(
            f"{count(hidden, 'session')} of other roles cannot be looked into",
            "look as a role that may: grant pg_read_all_stats to it",
        )
    if not holders:
        return fine("nobody holds an old snapshot")
    return fine(f"the oldest snapshot is {count(holders[0].xids, 'transaction')} old")


def judge_ages(rows: Rows) -> Judgment:
    """How near the numbers of transactions are to their end."""
    [[xids, multixacts, frozen_after]] = rows
    worst = max(xids, multixacts)
    kind = "transaction" if xids >= multixacts else "multixact"
    said = f"the oldest row is {count(worst, kind)} old; at 2,146 million PostgreSQL stops writing"
    # Some let it grow on purpose.
    if worst < max(_WORN_XIDS, frozen_after * 1.1):
        return fine(said)
    advice = (
        "find what holds vacuum back (the check `snapshots`), then: vacuumdb --freeze, the oldest"
        " tables first (select oid::regclass, age(relfrozenxid) from pg_class order by 2 desc)"
    )
    return (problem if worst >= _WORN_OUT_XIDS else warning)(said, advice)


def judge_notifications(rows: Rows) -> Judgment:
    """Whether the queue of notifications is emptied."""
    [[used]] = rows
    said = f"{used:.0%} of the queue of notifications is used"
    if used < _FULL:
        return fine(said)
    advice = (
        "end the session that listens in a long transaction: it keeps all of them"
        " (select pid, xact_start, query from pg_stat_activity order by xact_start); when the queue"
        " is full, no commit that notifies goes through"
    )
    return (problem if used >= _TOO_FULL else warning)(said, advice)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of ours; the fields are those of a row of `list_tables`, the name as SQL has it."""

    name: str
    is_day: bool
    rows: int
    dead: int
    heap_bytes: int
    index_bytes: int
    total_bytes: int
    vacuumed_seconds: float | None
    is_vacuumed: bool
    is_on: bool


def _tables(rows: Sequence[tuple[Any, ...]]) -> list[Table]:
    return [Table(*row) for row in rows]


def judge_autovacuum(rows: Rows) -> Judgment:
    """Whether PostgreSQL vacuums by itself."""
    tables = _tables(rows)
    if not all(table.is_on for table in tables):
        return problem(
            "autovacuum or track_counts is off on this server: nothing is cleared away",
            "set both on in postgresql.conf and reload",
        )
    off = [table.name for table in tables if not table.is_vacuumed]
    if off:
        return problem(
            f"autovacuum is off for {names(off)}",
            f"alter table {off[0]} reset (autovacuum_enabled)",
        )
    return fine(f"it is on for {count(len(tables), 'table')}")


def judge_dead_rows(rows: Rows) -> Judgment:
    """Whether vacuum keeps up."""
    tables = [table for table in _tables(rows) if not table.is_day]
    worst = max(tables, key=lambda table: table.dead)
    ago = (
        "never vacuumed"
        if worst.vacuumed_seconds is None
        else f"vacuumed {span(worst.vacuumed_seconds)} ago"
    )
    said = (
        f"the most are in {worst.name}: {worst.dead:,} dead beside {worst.rows:,} live rows, {ago}"
    )
    if worst.dead < max(_DEAD_ROWS, worst.rows):
        return fine(said)
    advice = (
        f"see who holds vacuum back (the check `snapshots`), then: vacuum (verbose) {worst.name}"
    )
    return (problem if worst.dead >= _TOO_MANY_DEAD_ROWS else warning)(said, advice)


def judge_sizes(rows: Rows) -> Judgment:
    """Whether a table or its indexes are far larger than what is in them."""
    tables = _tables(rows)
    total = sum(table.total_bytes for table in tables)
    bloated = [
        table
        for table in tables
        if not table.is_day
        and (
            table.heap_bytes > max(_BLOATED_BYTES, table.rows * _HEAP_BYTES_PER_ROW)
            or table.index_bytes > max(_BLOATED_BYTES, table.rows * _INDEX_BYTES_PER_ROW)
        )
    ]
    if bloated:
        worst = bloated[0]
        return warning(
            f"{worst.name} takes {size(worst.heap_bytes)} and its indexes"
            f" {size(worst.index_bytes)}, for {count(worst.rows, 'row')}",
            f"while all runs: reindex table concurrently {worst.name}; to shrink the table itself,"
            f" in a quiet hour: vacuum (full) {worst.name}, which stops everything meanwhile",
        )
    largest = ", ".join(f"{table.name} {size(table.total_bytes)}" for table in tables[:3])
    return fine(f"{size(total)} in all; the largest: {largest}")


SERVER_CHECKS: Final = (
    Check("snapshots", asked("list_holders", judge_holders, most=_MOST_HOLDERS), of_tables=False),
    Check("wraparound", asked("read_ages", judge_ages), of_tables=False),
    Check("notifications", asked("read_notifications", judge_notifications), of_tables=False),
)
TABLE_CHECKS: Final = (
    Check("autovacuum", asked("list_tables", judge_autovacuum)),
    Check("dead rows", asked("list_tables", judge_dead_rows)),
    Check("sizes", asked("list_tables", judge_sizes)),
)
