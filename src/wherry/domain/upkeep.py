"""What PostgreSQL has to clear away of our tables, and what it may not clear away yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table without its schema, its rows, and those that are dead and not removed; estimates."""

    name: str
    rows: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Each table, and the age of the oldest snapshot that keeps vacuum from its work, 0 for none.

    Sessions that the asking role may not look into are left out, and counted.
    """

    tables: tuple[TableRows, ...]
    oldest_transactions: int
    oldest_seconds: float
    hidden_sessions: int
