"""The database of a benchmark, and the meters on it: commits, WAL, CPU of the server.

Every measured run gets a schema made anew, so that no run pays for the dead rows of the one before.
The server is $WHERRY_DSN's, or an embedded one of the benchmarks' own with default settings: fsync
and synchronous_commit are on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from wherry import embedded
from wherry.config import DSN_VARIABLE
from wherry.migrations import migrate

SCHEMA = "wherry_bench"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reading:
    """What the meters show at one moment."""

    at: float
    commits: int
    wal: int
    server_cpu: float


@dataclass(frozen=True)
class Spent:
    """What was spent between two readings. CPU is nan where /proc does not show the server."""

    seconds: float
    commits: int
    wal_bytes: int
    full_page_bytes: float
    server_cpu: float


class Place:
    """A server to measure on."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(
            dsn, autocommit=True, application_name="wherry bench", prepare_threshold=None
        )
        self._postmaster = _postmaster(self.connection)
        self._has_walinspect = False
        with contextlib.suppress(psycopg.Error):
            self.connection.execute("create extension if not exists pg_walinspect")
            self._has_walinspect = True

    def query(self, text: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement, `{schema}` being the run's, and return its rows, if it has any."""
        told = sql.SQL(text).format(schema=sql.Identifier(SCHEMA))
        cursor = self.connection.execute(told, values or None)
        return cursor.fetchall() if cursor.description else []

    def renew(self, schema: str = SCHEMA) -> None:
        """Make the schema anew, and let the server write down what it owes from before."""
        drop = sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema))
        self.connection.execute(drop)
        migrate(self.dsn, schema=schema)
        # Only whoever may: a managed server checkpoints when it wants to.
        with contextlib.suppress(psycopg.Error):
            self.connection.execute("checkpoint")

    def read(self) -> Reading:
        """Read the meters."""
        with contextlib.suppress(psycopg.Error):
            self.query("select pg_stat_clear_snapshot()")
        [[commits, wal]] = self.query(
            "select xact_commit, (pg_current_wal_insert_lsn() - '0/0')::bigint"
            " from pg_stat_database where datname = current_database()"
        )
        return Reading(monotonic(), commits, wal, self.server_cpu())

    def spent(self, before: Reading) -> Spent:
        """What was spent since *before*. Commits of sessions that go on may be a second late."""
        now = self.read()
        full_pages = float("nan")
        if self._has_walinspect:
            with contextlib.suppress(psycopg.Error):
                [[found]] = self.query(
                    "select coalesce(sum(fpi_size), 0) from pg_get_wal_stats("
                    "'0/0'::pg_lsn + %s::numeric, '0/0'::pg_lsn + %s::numeric)",
                    before.wal,
                    now.wal,
                )
                full_pages = float(found)
        return Spent(
            now.at - before.at,
            now.commits - before.commits,
            now.wal - before.wal,
            full_pages,
            now.server_cpu - before.server_cpu,
        )

    def server_cpu(self) -> float:
        """CPU seconds of the server so far, of the processes that have ended too."""
        if self._postmaster is None:
            return float("nan")
        try:
            folder = Path(f"/proc/{self._postmaster}")
            ticks = sum(_times(self._postmaster))
            children = (folder / "task" / str(self._postmaster) / "children").read_text().split()
        except OSError:
            return float("nan")
        for child in children:
            with contextlib.suppress(OSError):
                ticks += sum(_times(int(child))[:2])
        return ticks / TICKS

    def is_drained(self) -> bool:
        """Whether no task is left that has not ended."""
        [[left]] = self.query("select exists (select from {schema}.live)")
        return not left

    def wait_until_drained(self, *, within_seconds: float = 120.0) -> float:
        """Return when nothing is left, as a monotonic time; SystemExit if it takes too long."""
        give_up_at = monotonic() + within_seconds
        while not self.is_drained():
            if monotonic() > give_up_at:
                raise SystemExit(f"not drained within {within_seconds:g} s")
            sleep(0.005)
        return monotonic()

    def finished(self) -> dict[str, int]:
        """How many tasks have ended, by state."""
        return dict(self.query("select state, count(*) from {schema}.finished group by state"))

    def must_have_succeeded(self, tasks: int) -> None:
        """Stop the benchmark with a sentence unless the database holds so many successes."""
        found = self.finished()
        if found != ({"succeeded": tasks} if tasks else {}) or not self.is_drained():
            raise SystemExit(f"lost or doubled: of {tasks} tasks the database says {found}")

    def machine(self) -> dict[str, Any]:
        """What the figures were taken on."""
        [[version, fsync, sync]] = self.query(
            "select current_setting('server_version'), current_setting('fsync'),"
            " current_setting('synchronous_commit')"
        )
        return {
            "postgresql": version,
            "fsync": fsync,
            "synchronous_commit": sync,
            "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 2),
        }


@contextlib.contextmanager
def found() -> Generator[Place]:
    """Give the place to measure at: $WHERRY_DSN, or an embedded server of the benchmarks' own."""
    given = os.environ.get(DSN_VARIABLE, "")
    home = embedded.default_home().with_name("bench") if not given else embedded.parse(given)
    with contextlib.ExitStack() as stack:
        if home is not None:
            given = stack.enter_context(embedded.acquire(home)).dsn
        place = Place(given)
        stack.callback(place.connection.close)
        yield place


def _postmaster(connection: psycopg.Connection[Any]) -> int | None:
    """Return the process that all of the server's are children of, if it runs on this machine."""
    if not connection.info.host.startswith("/"):
        return None
    row = connection.execute("select pg_backend_pid()").fetchone()
    try:
        assert row is not None
        stat = Path(f"/proc/{row[0]}/stat").read_text()
    except OSError:
        return None
    name, rest = stat.split("(", 1)[1].rsplit(")", 1)
    return int(rest.split()[1]) if name.startswith("postgres") else None


def _times(pid: int) -> list[int]:
    """Return the ticks in user and in kernel mode: its own two, and its ended children's two."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(field) for field in fields[11:15]]
