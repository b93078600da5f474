"""Servers and remote workers as processes, which tests kill, stop, and start again where they were.

A remote worker runs `tests/e2e/remote_handlers.py` with a server's address and nothing else of
ours; what its handlers do they write down in a database of their own, here the tests' one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg

from tests.facts import wait_for

ROOT = Path(__file__).resolve().parents[2]
HANDLERS = "tests.e2e.remote_handlers:app"
# Of one process, on a machine that has much else to do.
UP_WITHIN_SECONDS = 40.0


class Program:
    """One `wherry` process; what it says goes to a file."""

    def __init__(self, log: Path, arguments: Sequence[str], variables: dict[str, str]) -> None:
        self._log = log
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wherry", *arguments],
                cwd=ROOT,
                env=_environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    @property
    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def says(self, pattern: str, *, seconds: float = UP_WITHIN_SECONDS) -> re.Match[str]:
        """Return the first match of *pattern* in its log, as soon as there is one."""

        def said() -> re.Match[str] | None:
            found = re.search(pattern, self.log)
            assert found is not None or self.runs, self.log
            return found

        found = wait_for(said, seconds=seconds, what=f"it says {pattern!r}")
        assert found is not None
        return found

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would; it is gone when this returns."""
        self.process.kill()
        self.process.wait(30)

    def ended(self, *, within: float) -> int:
        """Return its exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {within} s:\n{self.log[-4000:]}") from None


class ServerProcess(Program):
    """A `wherry server` that has both doors."""

    def __init__(self, log: Path, dsn: str, *, grpc: int = 0, http: int = 0) -> None:
        doors = ["--grpc", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}"]
        super().__init__(log, ["server", *doors], {"WHERRY_DSN": dsn})
        self.says("see /docs there")
        self.grpc = int(self.says(r"gRPC on 127\.0\.0\.1:(\d+)")[1])
        self.http = int(self.says(r"HTTP on http://127\.0\.0\.1:(\d+)")[1])

    @property
    def target(self) -> str:
        """What a channel is opened to."""
        return f"127.0.0.1:{self.grpc}"

    @property
    def address(self) -> str:
        """What a worker or an App is given."""
        return f"grpc://{self.target}"


class RemoteWorker(Program):
    """A `wherry worker` that has only a server."""

    def __init__(self, log: Path, address: str, *, name: str, notes: str, options: str) -> None:
        self.name = name
        given = ["worker", HANDLERS, "--server", address, "--name", name, *options.split()]
        super().__init__(log, given, {"NOTES_DSN": notes})

    def is_up(self) -> bool:
        """Whether it has begun to work."""
        assert self.runs, self.log
        return f"worker {self.name}: " in self.log


class Fleet:
    """All processes of one test; whatever still runs at its end is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._started:
            program.process.kill()
        for program in self._started:
            program.process.wait(30)
            # Shown with a test that failed.
            print(f"── {program.process.args!r}\n{program.log[-4000:]}")

    def server(self, dsn: str, *, like: ServerProcess | None = None) -> ServerProcess:
        """Start a server, where *like* was; it listens when this returns."""
        grpc, http = (0, 0) if like is None else (like.grpc, like.http)
        made = ServerProcess(self._next_log("server"), dsn, grpc=grpc, http=http)
        self._started.append(made)
        return made

    def worker(
        self, address: str, *, notes: str, name: str = "w1", options: str = "", wait: bool = True
    ) -> RemoteWorker:
        """Start a worker; with *wait* it works when this returns."""
        log = self._next_log(name)
        made = RemoteWorker(log, address, name=name, notes=notes, options=options)
        self._started.append(made)
        if wait:
            wait_until_up(made)
        return made

    def _next_log(self, name: str) -> Path:
        return self._folder / f"{len(self._started)}-{name}.log"


def wait_until_up(*workers: RemoteWorker) -> None:
    """Wait until all of these have begun to work."""
    for worker in workers:
        wait_for(worker.is_up, seconds=UP_WITHIN_SECONDS, what=f"{worker.name} is up")


class Note(NamedTuple):
    """That a handler began: of which task, under which lease, when (monotonic), and where."""

    task: int
    token: int
    attempt: int
    worker: str
    at: float


class Notes:
    """What handlers have written down, and the states of their tasks."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ask(
            "create table note"
            " (task bigint, token bigint, attempt integer, worker text, at double precision)"
        )

    def ask(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def all(self) -> list[Note]:
        """Return all of them, in the order of their times."""
        return [Note(*row) for row in self.ask("select * from note order by at")]

    def of(self, task: int) -> list[Note]:
        """Return those of one task."""
        return [note for note in self.all() if note.task == task]

    def count(self) -> int:
        """Count them."""
        return int(self.ask("select count(*) from note")[0][0])

    def states(self) -> dict[str, int]:
        """Count the tasks of each state."""
        rows = self.ask("select state, count(*) from wherry.tasks group by 1")
        return {str(state): int(n) for state, n in rows}

    def done(self) -> int:
        """Count the tasks that succeeded."""
        return self.states().get("succeeded", 0)

    def waiting(self) -> int:
        """Count the marks of those who wait for tasks."""
        return int(self.ask("select count(*) from wherry.waiting")[0][0])

    def wait_until_done(self, tasks: int, *, seconds: float) -> None:
        """Wait until so many tasks, all there are, have succeeded."""

        def done() -> bool:
            # Not too often: it counts all there are, and the machine has other things to do.
            time.sleep(0.05)
            return self.states() == {"succeeded": tasks}

        wait_for(done, seconds=seconds, what=f"{tasks} tasks have succeeded")


def _environment(variables: dict[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WHERRY_")}
    return {**inherited, "PYTHONPATH": path, **variables}
