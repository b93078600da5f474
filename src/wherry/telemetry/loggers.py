"""Wherry's loggers: a handler, filter or record factory of the program that raises harms no task.

Logging calls whatever a program has hung into it, in the middle of our loops, and lets through what
that raises. A worker must not end because of a log line, nor lose the lines after it: what was
raised is told the way logging tells of its own errors, on stderr, and the next line is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any


def logger(name: str) -> logging.Logger:
    """Return the logger of that name, whose calls never raise."""
    made = logging.getLogger(name)

    def handle(record: logging.LogRecord) -> None:
        try:
            type(made).handle(made, record)
        except Exception:  # noqa: BLE001 - the border around code that the program hung in
            # Says what was raised, and by which line, unless logging.raiseExceptions is off.
            logging.Handler().handleError(record)

    def make_record(
        name: str,
        level: int,
        fn: str,
        lno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        extra: Mapping[str, object] | None = None,
        sinfo: str | None = None,
    ) -> logging.LogRecord:
        given = (name, level, fn, lno, msg, args, exc_info, func)
        try:
            record = type(made).makeRecord(made, *given, sinfo=sinfo)
        except Exception:  # noqa: BLE001 - the border around the program's record factory
            record = logging.LogRecord(*given, sinfo)
        # Where the factory has a field of the same name, Python's own would raise.
        for field, value in (extra or {}).items():
            record.__dict__.setdefault(field, value)
        return record

    made.handle = handle  # type: ignore[method-assign]
    made.makeRecord = make_record  # type: ignore[method-assign]
    return made
