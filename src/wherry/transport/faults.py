"""Tells what a driver's error means: it did not happen, nobody knows, or ask elsewhere.

ERROR means that the statement did not happen. A lost connection means that nobody knows: then only
a command that can be repeated may be sent again.
"""

from __future__ import annotations

from enum import Enum

import psycopg
from psycopg import errors

from wherry.errors import ReadOnly, SchemaMissing, Unavailable, WherryError


class Fault(Enum):
    """What to do about an error."""

    # It did not happen, and may go through next time: a deadlock, a lock not had in time.
    TRANSIENT = "transient"
    # The connection is gone or useless; what was sent may have happened.
    LOST = "lost"
    # It will not go through.
    FINAL = "final"


_TRANSIENT = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
)
_LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.IdleSessionTimeout,
    errors.ReadOnlySqlTransaction,
    errors.TooManyConnections,
)
_NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction)


def fault_of(error: BaseException) -> Fault:
    """Say what kind of trouble *error* is."""
    if isinstance(error, _TRANSIENT):
        return Fault.TRANSIENT
    if isinstance(error, _LOST):
        return Fault.LOST
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # Without an SQLSTATE the server did not say it: the connection broke.
        state = getattr(error, "sqlstate", None)
        return Fault.LOST if state is None or state.startswith(("08", "57P")) else Fault.FINAL
    if isinstance(error, OSError | Unavailable):
        return Fault.LOST
    return Fault.FINAL


def translated(error: BaseException, *, schema: str) -> WherryError | None:
    """The exception that our callers should see instead of the driver's, or None to let it be."""
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(
            "connected to a read-only server (a standby, or default_transaction_read_only is on):"
            " point the DSN at the primary, or list all hosts with target_session_attrs=read-write"
        )
    if isinstance(error, _NO_SCHEMA) and schema in str(error):
        return SchemaMissing(schema)
    if isinstance(error, errors.InsufficientPrivilege):
        return None
    if fault_of(error) is Fault.LOST and not isinstance(error, WherryError):
        return Unavailable(f"the database is out of reach: {str(error).strip()}")
    return None
