"""Tells what a driver's error means: it did not happen, nobody knows, or ask elsewhere.

ERROR means that the statement did not happen. A lost connection means that nobody knows: then only
a command that can be repeated may be sent again.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import psycopg
from psycopg import errors

from wherry.commands.base import Command
from wherry.domain.lines import on_one_line
from wherry.errors import (
    InvalidTask,
    LimitReached,
    ReadOnly,
    SchemaMissing,
    Unavailable,
    WherryError,
)

# Chains of causes may be rings.
_LONGEST_CHAIN = 20


class Fault(Enum):
    """What to do about an error."""

    # It did not happen, and may go through next time: a deadlock, a lock not had in time.
    TRANSIENT = "transient"
    # The connection is gone or useless, or the server cannot serve now (it is full, shutting down,
    # or canceled the statement); what was sent may have happened.
    LOST = "lost"
    # It will not go through.
    FINAL = "final"


_TRANSIENT = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    # The session was made to forget it in the middle of a transaction, or has it from another
    # client of a pooler; `prepared.py` knows by now.
    errors.InvalidSqlStatementName,
    errors.DuplicatePreparedStatement,
)
_LOST = (errors.IdleInTransactionSessionTimeout, errors.ReadOnlySqlTransaction)
# By the first two letters of the SQLSTATE: connection, resources, operator intervention (shutdown,
# a canceled statement), system, internal error. None of them is the statement's own fault.
_LOST_CLASSES = frozenset({"08", "53", "57", "58", "XX"})
# Data, constraints, limits: the values that were sent are at fault.
_REFUSED_CLASSES = frozenset({"22", "23", "54"})
_UNIQUE = errors.UniqueViolation.sqlstate
# What a new task's id may already name.
_OF_IDS = (("live", "live_pkey"), ("payload", "payload_pkey"))
_NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction)


def fault_of(error: BaseException) -> Fault:
    """Say what kind of trouble *error* is."""
    if isinstance(error, _TRANSIENT):
        return Fault.TRANSIENT
    if isinstance(error, errors.CheckViolation) and error.diag.constraint_name is None:
        # A row on its way into a partition, whose bounds changed meanwhile (0002_days.sql).
        return Fault.TRANSIENT
    if isinstance(error, _LOST):
        return Fault.LOST
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return Fault.LOST if error.sqlstate[:2] in _LOST_CLASSES else Fault.FINAL
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # Without an SQLSTATE the server did not say it: the connection broke.
        return Fault.LOST
    return Fault.LOST if isinstance(error, OSError) else Fault.FINAL


def is_refusal(error: BaseException) -> bool:
    """Whether the values that were sent are at fault: others in their place would go through.

    A server says so by an error of ours, also where there is too much of them.
    """
    if isinstance(error, LimitReached):
        return error.retry_seconds is None
    if isinstance(error, InvalidTask):
        return True
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is not None:
        return state[:2] in _REFUSED_CLASSES
    # Without an SQLSTATE the driver itself could not send them.
    return isinstance(error, psycopg.DataError | psycopg.ProgrammingError | UnicodeError)


def is_taken_id(error: BaseException) -> bool:
    """Whether a new task was refused because its id names another one.

    Ids are drawn once, unless the database has gone back in time since (a failover, a restore).
    """
    # A caller's driver may be another one, or stand behind SQLAlchemy, which keeps it in `orig`.
    for found in (error, getattr(error, "orig", None), getattr(error.__cause__, "__cause__", None)):
        said = getattr(found, "diag", found)
        names = getattr(said, "table_name", None), getattr(said, "constraint_name", None)
        if getattr(found, "sqlstate", None) == _UNIQUE and names in _OF_IDS:
            return True
    return False


def is_trouble(error: BaseException) -> bool:
    """Whether this is the database's trouble, so that waiting may help; else it is a bug here."""
    return isinstance(error, psycopg.Error | WherryError | OSError)


def one_line(error: BaseException) -> str:
    """Return the error's text on one line: libpq's go over three, with advice for nobody here.

    PostgreSQL's details are left out: they hold whole rows, and so payloads.
    """
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return on_one_line(said or str(error))


def without_rows(error: BaseException) -> BaseException:
    """Return *error* as it may be logged: PostgreSQL's details hold rows, and so payloads."""
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if isinstance(found, psycopg.Error):
            said = found.diag.message_primary or "no message"
            return type(found)(said).with_traceback(found.__traceback__)
        found = None if found is None else found.__cause__ or found.__context__
    return error


def is_time_up(error: BaseException, command: Command[Any], *, after_seconds: float) -> bool:
    """Whether a statement took longer than its command lets it; somebody may cancel it sooner."""
    limit_seconds = command.limit_seconds
    if limit_seconds is None or not isinstance(error, errors.QueryCanceled):
        return False
    return after_seconds >= limit_seconds


def translated(error: BaseException, *, schema: str) -> WherryError | None:
    """The exception that our callers should see instead of the driver's, or None to let it be."""
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(
            "connected to a read-only server (a standby, or default_transaction_read_only is on):"
            " point the DSN at the primary, or list all hosts with target_session_attrs=read-write"
        )
    if isinstance(error, _NO_SCHEMA) and schema in str(error):
        return SchemaMissing(schema)
    if fault_of(error) is Fault.LOST:
        return Unavailable(f"the database is out of reach: {one_line(error)}")
    return None
