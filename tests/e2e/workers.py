"""Worker processes that tests kill, stop and freeze, and a server of their own to take away.

A worker runs `tests/e2e/worker_program.py`. What its handlers did is in a file, line by line, so
that it is known even of a process that was killed in the middle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.embedded.support import answers, runs, start_as_owner, wait_until_stopped
from tests.facts import wait_for
from wherry.doctor.server import ALLOWANCE
from wherry.embedded import acquire

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("worker_program.py")
LEAVES_WITHIN_SECONDS = 25
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    ALLOWANCE: "on",
    "max_connections": "60",
    "port": "5432",
}


class WorkerProcess:
    """One worker, from its start to its end."""

    def __init__(self, dsn: str, folder: Path, name: str, **options: Any) -> None:
        self.name = name
        self.started = folder / "started"
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-X", "dev", str(PROGRAM), json.dumps({"name": name, **options})]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment(dsn, folder),
            )
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        """What it has written to its log."""
        return self._log.read_text(errors="replace")

    def is_up(self) -> bool:
        """Whether it has begun to work."""
        assert self.process.poll() is None, self.log
        return f"worker {self.name}: " in self.log

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Return its exit code; what does not let it end here takes a minute or for ever."""
        try:
            return self.process.wait(LEAVES_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it is still there:\n{self.log[-4000:]}") from None

    def end(self) -> None:
        """See to it that it is gone."""
        if self.process.poll() is None:
            # Also if it was stopped.
            self.process.kill()
        self.process.wait(30)


def environment(dsn: str, folder: Path) -> dict[str, str]:
    """Return the variables of a program that works on *dsn*."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "WHERRY_DSN": dsn,
        "PYTHONPATH": path,
        "PYTHONASYNCIODEBUG": "1",
        "STARTED": str(folder / "started"),
    }


def starts(folder: Path) -> Counter[tuple[str, int]]:
    """Count what handlers noted: ("start" or "end", task id)."""
    path = folder / "started"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter((what, int(id_)) for what, id_ in (line.split() for line in lines))


def states(dsn: str) -> dict[str, int]:
    """Count the tasks of each state."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        rows = connection.execute("select state, count(*) from wherry.tasks group by 1").fetchall()
    return {str(state): int(n) for state, n in rows}


def one_row(dsn: str, query: str, *values: Any) -> tuple[Any, ...]:
    """Return the only row of a query."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        [row] = connection.execute(query.encode(), values).fetchall()
    return tuple(row)


def make_effects(dsn: str) -> None:
    """Make the table that the handler `effect` writes to."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        connection.execute("create table effect (n integer)")


def effects(dsn: str) -> tuple[int, int]:
    """Count the effects there are, and the different ones."""
    total, different = one_row(dsn, "select count(*), count(distinct n) from effect")
    return total, different


class PrivateServer:
    """A PostgreSQL of this test's own, to stop, crash, freeze, and start again.

    Its data is made as that of any embedded server, but it runs without the keeper, which would
    start it again by itself.
    """

    def __init__(self, folder: Path) -> None:
        with acquire(folder / "home") as made:
            self._programs, self._data = made.bin, made.data
        wait_until_stopped(folder / "home")
        owner = self._data.stat()
        self._sockets = folder / "sockets"
        self._sockets.mkdir()
        os.chown(self._sockets, owner.st_uid, owner.st_gid)
        self.dsn = f"host={self._sockets} user=wherry dbname=wherry"
        self.start()

    def start(self) -> None:
        """Start it, with the data it had; it answers when this returns."""
        settings = {**SETTINGS, "listen_addresses": "", "unix_socket_directories": self._sockets}
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = start_as_owner(
            [self._programs / "postgres", "-D", self._data, *given], self._data
        )
        wait_for(lambda: answers(self.dsn), seconds=20, what="the server answers")

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash."""
        children = children_of(self._process.pid)
        self._process.send_signal(number)
        self._process.wait(20)
        # Left by a crash, they see soon that their parent is gone.
        wait_for(lambda: not any(map(runs, children)), seconds=20)

    def restart(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop it and start it again."""
        self.stop(number)
        self.start()

    def freeze(self) -> list[int]:
        """Stop all its processes where they are; `thaw` lets them go on."""
        # The parent first: it makes no new ones then.
        self._process.send_signal(signal.SIGSTOP)
        frozen = [self._process.pid, *children_of(self._process.pid)]
        for process in frozen:
            os.kill(process, signal.SIGSTOP)
        return frozen

    def thaw(self, frozen: list[int]) -> None:
        """Let frozen processes go on."""
        for process in frozen:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self.stop(signal.SIGQUIT)


def children_of(process: int) -> list[int]:
    """Return the process ids of a process's children."""
    said = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = (map(int, line.split()) for line in said.splitlines())
    return [child for child, parent in pairs if parent == process]


def sessions(dsn: str) -> Counter[str]:
    """Count the sessions that each of our names has now."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        rows = connection.execute(
            "select application_name from pg_stat_activity"
            " where application_name like 'wherry %' and datname = current_database()"
        ).fetchall()
    return Counter(str(name) for (name,) in rows)


def wait_until_up(*workers: WorkerProcess) -> None:
    """Wait until all of these workers have begun to work."""
    for worker in workers:
        wait_for(worker.is_up, seconds=60, what=f"{worker.name} is up")
