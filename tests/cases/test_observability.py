"""What made others blind: log handlers that were detached or taken over, lines that came twice."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import wherry
from tests.worker.support import drained
from wherry.domain.state import State

BAD_LINES = 100


class Bad(logging.Handler):
    """Raises at the first lines, then remembers what comes."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.raised = 0
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self.raised < BAD_LINES:
            self.raised += 1
            # As one that expects an event of another shape.
            raise KeyError(record.__dict__["no such field"])
        self.heard.append(record.getMessage())


class BadFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("a filter of somebody's")


@contextmanager
def hung(handler: logging.Handler) -> Iterator[None]:
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


async def test_log_handlers_that_raise_cost_no_task_and_stay(
    app: wherry.App, capsys: pytest.CaptureFixture[str]
) -> None:
    """OBS-02."""

    @app.task(name="fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError("boom")

    bad = Bad()
    ids = [(await app.aenqueue("fails")).id for _ in range(BAD_LINES)]

    with hung(bad):
        await drained(app)
        last = (await app.aenqueue("fails")).id
        await drained(app)

    assert bad.raised == BAD_LINES
    assert any(f"task {last} (fails) is dead" in line for line in bad.heard)
    states = {task.state for task in (await app.alist_tasks(limit=BAD_LINES + 1)).tasks}
    assert (len(ids), states) == (BAD_LINES, {State.DEAD})
    # And whoever looks at stderr is told why lines are missing.
    assert "KeyError" in capsys.readouterr().err


async def test_a_filter_that_raises_costs_no_task(app: wherry.App) -> None:
    """OBS-02: filters are called without a net by logging itself."""

    @app.task(name="fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError("boom")

    await app.aenqueue("fails")
    handler = logging.NullHandler()
    handler.addFilter(BadFilter())
    handler.handle = handler.filter  # type: ignore[method-assign]

    with hung(handler):
        summary = await drained(app)

    assert summary.exit_code == 0


class Fielded(logging.LogRecord):
    """A program's own record, with a field of the name of one of ours."""

    queue = "theirs"

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.worker = "theirs"


def broken(*args: Any, **more: Any) -> logging.LogRecord:
    raise RuntimeError("no record")


@pytest.mark.parametrize("factory", [Fielded, broken])
async def test_a_record_factory_of_any_kind_costs_no_task(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch, factory: Any
) -> None:
    """OBS-02: Python's own loggers raise where a factory has a field that a line brings, too."""

    @app.task(name="fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError("boom")

    id = (await app.aenqueue("fails")).id
    heard = Bad()
    heard.raised = BAD_LINES

    with hung(heard), monkeypatch.context() as patch:
        patch.setattr(logging, "_logRecordFactory", factory)
        # asyncio's own loggers are not ours to guard.
        patch.setattr(logging.getLogger("asyncio"), "disabled", True)
        await drained(app)

    assert any(f"task {id} (fails) is dead" in line for line in heard.heard)


def test_importing_wherry_touches_no_logging() -> None:
    """OBS-03: no handlers, no levels, no other class of loggers."""
    program = (
        "import logging\n"
        "before = logging.getLoggerClass(), logging.getLogRecordFactory()\n"
        "import wherry, wherry.app.work, wherry.worker.worker, wherry.server.run, wherry.cli.logs\n"
        "assert before == (logging.getLoggerClass(), logging.getLogRecordFactory())\n"
        "assert logging.getLogger().handlers == [], logging.getLogger().handlers\n"
        "assert logging.getLogger().level == logging.WARNING\n"
        "ours = [each for name, each in logging.Logger.manager.loggerDict.items()\n"
        "        if name.startswith('wherry') and isinstance(each, logging.Logger)]\n"
        "assert ours and all(not each.handlers and not each.level for each in ours)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
