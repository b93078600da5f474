"""Read what vacuum has left to do, and what keeps it from that: PostgreSQL's own counters.

Nothing here reads a table of ours, so that it costs the same however many tasks there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.upkeep import TableRows, Upkeep

# The oldest by transactions need not be the oldest by time; one of so few is.
_HOLDERS = 20


@dataclass(frozen=True, slots=True)
class ReadUpkeep(Command[Upkeep]):
    """Tell the rows of each table, live and dead, and how old the oldest snapshot is."""

    def answer(self) -> Answer[Upkeep]:
        tables = yield Statement("doctor/count_table_rows", {})
        holders = yield Statement("doctor/list_holders", {"most": _HOLDERS})
        return Upkeep(
            tables=tuple(TableRows(*row) for row in tables),
            # A slot has no time, and where nobody holds anything there is neither.
            oldest_transactions=max((row[3] or 0 for row in holders), default=0),
            oldest_seconds=max((row[4] or 0.0 for row in holders), default=0.0),
            hidden_sessions=holders[0][0] if holders else 0,
        )
