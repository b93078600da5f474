"""Reads the name of a database, and never repeats it in an error: it may hold a password.

Whoever connects reads the DSN here first. psycopg's own error for a text that is none quotes it.
"""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from wherry.errors import ConfigError


def read_dsn(dsn: object) -> dict[str, Any]:
    """Return the parameters of *dsn*, libpq's conninfo or URI. Raises ConfigError if it is none."""
    if not isinstance(dsn, str):
        raise ConfigError(f"the DSN must be a string, not {type(dsn).__name__}")
    try:
        return dict(conninfo_to_dict(dsn))
    except (ProgrammingError, UnicodeError):
        raise ConfigError(
            "the DSN cannot be read: write postgresql://user@host/database, or"
            " 'host=… dbname=…', or embedded:"
        ) from None
