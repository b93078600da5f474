"""Where a worker's log lines go, and what happens when nobody reads them any more.

If the application has set up logging itself, it is left alone. Broken pipes and closed descriptors
are no reason to stop working: the stream goes quiet, and the worker goes on.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from wherry.cli.text import plain, rfc3339

# By how many -v less how many -q: ours, and everybody else's.
_LEVELS = {
    -2: (logging.ERROR, logging.ERROR),
    -1: (logging.WARNING, logging.WARNING),
    0: (logging.INFO, logging.WARNING),
    1: (logging.DEBUG, logging.INFO),
    2: (logging.DEBUG, logging.DEBUG),
}
# Nobody reads it, it is closed, its terminal is gone.
_FOR_GOOD = (errno.EPIPE, errno.EBADF, errno.EIO)


def configure(*, verbosity: int, as_json: bool = False, with_pid: bool = False) -> None:
    """Log to stderr, unless the root logger has a handler already."""
    root = logging.getLogger()
    if root.handlers:
        return
    ours, others = _LEVELS[max(-2, min(2, verbosity))]
    handler = UntilTheEnd(sys.stderr)
    handler.setFormatter(JSONLines() if as_json else Lines(with_pid=with_pid))
    root.addHandler(handler)
    root.setLevel(others)
    logging.getLogger("wherry").setLevel(ours)


class UntilTheEnd(logging.StreamHandler[TextIO]):
    """Writes lines as long as the interpreter is whole.

    While it is taken apart, what handlers left behind still logs its own end; CPython 3.13.0
    crashed then, at asking for the time.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or drop it."""
        if not sys.is_finalizing():
            super().emit(record)


class Lines(logging.Formatter):
    """Time, level, logger and text; further lines are indented, so that no data can forge one."""

    def __init__(self, *, with_pid: bool) -> None:
        super().__init__()
        self._pid = f"[{os.getpid()}] " if with_pid else ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        text = plain(_text(record), lines=True).replace("\n", "\n    ")
        return f"{time} {self._pid}{record.levelname.lower():<7} {record.name}: {text}"


class JSONLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "text": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _text(record: logging.LogRecord) -> str:
    return logging.Formatter("%(message)s").format(record)


class Unbroken(io.TextIOWrapper):
    """A standard stream that goes quiet, instead of failing, once nobody reads it.

    A handler that prints must not fail its task for that, nor the log line after it.
    """

    def write(self, text: str, /) -> int:
        """Write, or drop."""
        try:
            return super().write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # Of others, such as a full disk, only this text is lost: there may be room again.
        if error.errno in _FOR_GOOD:
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)
                super().flush()


def keep_standard_streams() -> None:
    """Make stdout and stderr unbreakable, and fill descriptors 0 to 2 where they are closed.

    A connection that was given descriptor 1 or 2 would be written to by whoever prints.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free descriptor is this one: those below are open by now.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _unbroken(sys.stdout, 1)
    sys.stderr = _unbroken(sys.stderr, 2)


def _unbroken(stream: TextIO | None, fd: int) -> TextIO:
    if stream is not None:
        stream.flush()
    encoding = "utf-8" if stream is None else stream.encoding
    # Beside the old one, not around its buffer: somebody may have kept that.
    raw = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
    return Unbroken(raw, encoding=encoding, errors="backslashreplace", line_buffering=True)
