"""Where log lines go, how they look, and what happens when nobody reads them any more.

If the application has set up logging itself, it is left alone. Whoever names a file of settings
(`--log-config`) gets those instead. Broken pipes and closed descriptors
are no reason to stop working: the stream goes quiet, and the worker goes on.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from wherry.cli.text import plain, rfc3339

F = TypeVar("F", bound=Callable[..., Any])

# What Python's own logging gives every record.
_OF_EVERY_RECORD = {*logging.makeLogRecord({}).__dict__, "message", "asctime"}
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the lines are to look: in one of our forms, or as a file of settings says."""

    format: str = "text"
    file: Path | None = None

    def arguments(self) -> list[str]:
        """Return the options that say the same to another process."""
        if self.file is not None:
            return ["--log-config", str(self.file.absolute())]
        return ["--log-format", self.format]


def with_logs(command: F) -> F:
    """Add the options of a verb that runs for long and logs meanwhile."""
    made: Any = command
    for option in (
        click.option(
            "--log-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Set up logging by this JSON, in the form of Python's logging.config.dictConfig.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            help="Log lines for people or for programs (default: text).",
        ),
    ):
        made = option(made)
    result: F = made
    return result


def configure(wanted: Wanted | None = None, *, verbosity: int, with_pid: bool = False) -> None:
    """Log to stderr, unless the root logger has a handler already; or as a file says.

    Raises UsageError for a file that is none of dictConfig's.
    """
    wanted = wanted or Wanted()
    if wanted.file is not None:
        _configure_by(wanted.file)
        return
    from wherry.worker.logged import TaskFields

    root = logging.getLogger()
    if root.handlers:
        return
    ours, others = _LEVELS[max(-2, min(2, verbosity))]
    handler = UntilTheEnd(sys.stderr)
    handler.setFormatter(JSONLines() if wanted.format == "json" else Lines(with_pid=with_pid))
    handler.addFilter(TaskFields())
    root.addHandler(handler)
    root.setLevel(others)
    logging.getLogger("wherry").setLevel(ours)


def _configure_by(file: Path) -> None:
    try:
        settings: Any = json.loads(file.read_text())
        # Python's own default would silence every logger that was made before.
        from logging.config import dictConfig

        dictConfig({"disable_existing_loggers": False, **settings})
    except Exception as error:  # dictConfig calls whatever the file names
        raise click.UsageError(
            f"--log-config: {file} sets up no logging ({type(error).__name__}: {error}"
            f"{'' if error.__cause__ is None else f': {error.__cause__}'}). It must hold what"
            " Python's logging.config.dictConfig takes, as JSON"
        ) from error


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
        name = plain(f"{record.name}{_whose(record)}")
        return f"{time} {self._pid}{record.levelname.lower():<7} {name}: {text}"


class JSONLines(logging.Formatter):
    """One JSON object a line: what every line has, the task's fields, what `extra=` gave."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "text": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _OF_EVERY_RECORD and name not in fields and value is not None:
                fields[name] = value if _is_plain(value) else _safe(value)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            fields["traceback"] = record.exc_text
        return json.dumps(fields)


def _whose(record: logging.LogRecord) -> str:
    """The task that a handler's own line is of; lines of Wherry's say it in their text."""
    fields = record.__dict__
    if fields.get("task_id") is None or record.name.startswith("wherry."):
        return ""
    return f" [task {fields['task_id']}, attempt {fields.get('attempt')}]"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _safe(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a program's own object: its line must come all the same
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


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
