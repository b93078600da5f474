"""Running the command line: inside the test, or as a process of its own.

Inside, for what is parsed and printed: `cli("dead", "list")` asks about the test's database. As a
process, for what a process does: signals, pipes, exit codes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from tests.facts import wait_for
from wherry.cli import main

SHOP = """
import asyncio, os, sys, time
import wherry

app = wherry.App()

@app.task
def mail(to: str) -> None:
    print("mail to", to, flush=True)

@app.task(max_attempts=1)
def broken() -> None:
    raise ValueError("boom \\x1b[31mred")

@app.task
def slow(seconds: float) -> None:
    print("begun", flush=True)
    time.sleep(seconds)

@app.task
def endless() -> None:
    print("begun", flush=True)
    while True:
        time.sleep(0.05)

@app.task
async def stubborn() -> None:
    print("begun", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


@dataclass(slots=True)
class Answer:
    """What one run of the command line answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, and know no database but the one that is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHERRY_DSN", raising=False)
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


@pytest.fixture
def plain_cli() -> Callable[..., Answer]:
    """Run the command line inside the test."""

    def run(
        *args: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None
    ) -> Answer:
        result: Result = CliRunner().invoke(main, list(args), input=stdin, env=dict(env or {}))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def cli(plain_cli: Callable[..., Answer], dsn: str) -> Callable[..., Answer]:
    """Run the command line inside the test, on the test's database."""

    def run(*args: str, stdin: str | bytes | None = None, **env: str) -> Answer:
        return plain_cli(*args, stdin=stdin, env={"WHERRY_DSN": dsn, **env})

    return run


class Running:
    """A `wherry` that runs as a process; its output goes to files."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._folder = folder

    @property
    def out(self) -> str:
        return (self._folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self._folder / "err").read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def says(self, text: str, *, seconds: float = 60.0) -> None:
        """Wait until *text* stands on stdout or stderr."""
        wait_for(
            lambda: text in self.out + self.err or self.process.poll() is not None,
            seconds=seconds,
            what=f"it says {text!r}",
        )
        assert text in self.out + self.err, self.out + self.err

    def end(self, *, seconds: float = 25.0) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it still runs after {seconds} s; it said:\n{self.err}")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start `wherry` with these arguments; killed afterwards if it still runs."""
    all_of_them: list[Running] = []

    def start(*args: str, **env: str) -> Running:
        folder = tmp_path / f"process-{len(all_of_them)}"
        folder.mkdir()
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "wherry", *args],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        all_of_them.append(Running(process, folder))
        return all_of_them[-1]

    yield start
    for running in all_of_them:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """An APP in the current folder."""
    (tmp_path / "shop.py").write_text(SHOP)
    yield "shop:app"
    # Each test's App has a database of its own.
    sys.modules.pop("shop", None)


@pytest.fixture
def sql(dsn: str) -> Iterator[Callable[..., list[Any]]]:
    """Ask the test's database."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:

        def ask(text: str, **values: Any) -> list[Any]:
            cursor = connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield ask


@pytest.fixture
def dead(sql: Callable[..., list[Any]]) -> Callable[..., list[int]]:
    """Store so many dead tasks, as quickly as the database can; returns their ids."""

    def store(n: int = 1, *, queue: str = "default", type: str = "shop.broken") -> list[int]:
        rows = sql(
            "insert into wherry.finished (id, token, created_at, run_after, finished_at,"
            " keep_until, attempts, max_attempts, priority, state, queue, type, payload,"
            " last_error)"
            " select nextval('wherry.task_id'), 3, wherry.now() - interval '2 days',"
            "  wherry.now() - interval '2 days', wherry.now() - interval '1 day',"
            "  wherry.now() + interval '9 days', 3, 3, 0, 'dead', %(queue)s, %(type)s, '{}',"
            "  'ValueError: boom'"
            " from generate_series(1, %(n)s) returning id",
            n=n,
            queue=queue,
            type=type,
        )
        return [row[0] for row in rows]

    return store
