"""What the checks look at, as numbers: sizes, dead rows, who holds vacuum back, what is set.

The doctor says what is wrong and leaves out the rest; who looks at the database on a page wants the
rest, too. These are the same statements and the same rows. What cannot be looked at is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import psycopg

from wherry.commands.base import Rows
from wherry.doctor.patient import Patient
from wherry.doctor.server import Server
from wherry.doctor.vacuum import Holder, Table
from wherry.doctor.wording import statement
from wherry.domain.names import check_schema
from wherry.errors import Unavailable

T = TypeVar("T")

_MOST_HOLDERS = 10


@dataclass(frozen=True, slots=True)
class Ages:
    """How old the oldest row and multixact are, and when vacuum begins by itself."""

    xids: int
    multixacts: int
    frozen_after: int


@dataclass(frozen=True, slots=True)
class Use:
    """Sessions there are and there may be: on the server, in this database, of this role."""

    used: int
    allowed: int
    in_database: int
    allowed_in_database: int
    of_role: int
    allowed_of_role: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What this role's sessions are given; 0 seconds: no limit."""

    idle_session_seconds: float
    idle_in_transaction_seconds: float
    jit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """One look's numbers. Of statements of others the literals are left out."""

    server: Server | None
    tables: tuple[Table, ...] | None
    holders: tuple[Holder, ...] | None
    hidden_sessions: int
    notifications: float | None
    ages: Ages | None
    use: Use | None
    limits: Limits | None


def measure(dsn: str, *, schema: str) -> Measures:
    """Look once, over a connection that changes nothing. Raises Unavailable, ConfigError."""
    with Patient(dsn, schema=check_schema(schema)) as patient:
        held = _rows(patient, "list_holders", lambda rows: rows, most=_MOST_HOLDERS)
        return Measures(
            server=_rows(patient, "read_server", Server.of_rows),
            tables=_rows(patient, "list_tables", lambda rows: tuple(Table(*row) for row in rows)),
            holders=None if held is None else _holders(held),
            hidden_sessions=held[0][0] if held else 0,
            notifications=_rows(patient, "read_notifications", lambda rows: float(rows[0][0])),
            ages=_rows(patient, "read_ages", lambda rows: Ages(*rows[0])),
            use=_rows(patient, "read_use", lambda rows: Use(*rows[0])),
            limits=_rows(patient, "read_session_settings", lambda rows: Limits(*rows[0])),
        )


def _rows(patient: Patient, name: str, read: Callable[[Rows], T], **params: int) -> T | None:
    try:
        return read(patient.rows(f"doctor/{name}", **params))
    except (psycopg.Error, OSError, Unavailable):
        # Why it cannot be looked at, the doctor's own check says.
        return None


def _holders(rows: Rows) -> tuple[Holder, ...]:
    found = (Holder(*row[1:]) for row in rows if row[1] is not None)
    return tuple(replace(holder, statement=statement(holder.statement)) for holder in found)
