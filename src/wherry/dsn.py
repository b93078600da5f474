"""Reads the name of a database, and never repeats it in an error: it may hold a password.

Whoever connects reads the DSN here first. psycopg's own error for a text that is none quotes it.
"""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from wherry.errors import ConfigError


def check_text(dsn: object) -> str:
    """Return *dsn* if it is a text at all. Raises ConfigError."""
    if isinstance(dsn, str):
        return dsn
    raise ConfigError(f"the DSN must be a string, not {type(dsn).__name__}")


def read_dsn(dsn: object) -> dict[str, Any]:
    """Return the parameters of *dsn*, libpq's conninfo or URI. Raises ConfigError if it is none."""
    try:
        return dict(conninfo_to_dict(check_text(dsn)))
    except (ProgrammingError, UnicodeError):
        raise ConfigError(
            "the DSN cannot be read: write postgresql://user@host/database, or"
            " 'host=… dbname=…', or embedded:"
        ) from None
