"""Wherry's loggers: a handler, filter or formatter of the program that raises harms no task.

Logging calls whatever a program has hung into it, in the middle of our loops, and lets through what
that raises. A worker must not end because of a log line, nor lose the lines after it: what was
raised is told the way logging tells of its own errors, on stderr, and the next line is tried again.
"""

from __future__ import annotations

import logging


def logger(name: str) -> logging.Logger:
    """Return the logger of that name, whose calls never raise."""
    made = logging.getLogger(name)

    def handle(record: logging.LogRecord) -> None:
        try:
            type(made).handle(made, record)
        except Exception:  # noqa: BLE001 - the border around code that the program hung in
            # Says what was raised, and by which line, unless logging.raiseExceptions is off.
            logging.Handler().handleError(record)

    made.handle = handle  # type: ignore[method-assign]
    return made
