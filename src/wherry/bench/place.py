"""The database of a benchmark, and the meters on it: commits, WAL, CPU of the server.

Every measured run gets a schema made anew, so that no run pays for the dead rows of the one before.
What this role or this machine cannot tell (full-page images, CPU of the server) is nan, and
`blind_to` says why.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from wherry import __version__
from wherry.bench.claims import SCHEMA, Claims
from wherry.bench.errors import BenchmarkFailed
from wherry.migrations import migrate

TICKS = os.sysconf("SC_CLK_TCK")
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Reading:
    """What the meters show at one moment."""

    at: float
    commits: int
    wal: int
    server_cpu: float


@dataclass(frozen=True)
class Spent:
    """What was spent between two readings; nan is what cannot be told here."""

    seconds: float
    commits: int
    wal_bytes: int
    full_page_bytes: float
    server_cpu: float

    def each(self, tasks: int) -> dict[str, float]:
        """What a task has cost: us of the server, bytes of WAL without full pages, commits."""
        return {
            "server us": self.server_cpu / tasks * 1e6,
            "WAL bytes": (self.wal_bytes - self.full_page_bytes) / tasks,
            "full pages": self.full_page_bytes / tasks,
            "commits/1000": self.commits / tasks * 1000,
        }


class Place:
    """A server to measure on. *is_ours*: it is nobody's but the benchmarks'."""

    def __init__(self, dsn: str, *, is_ours: bool = False) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(
            dsn, autocommit=True, application_name="wherry bench", prepare_threshold=None
        )
        self.claims = Claims(dsn, self.connection, is_ours=is_ours)
        self._postmaster = _postmaster(self.connection)
        self._inspects_wal = self._may_inspect_wal()

    def query(
        self, text: LiteralString, *values: object, schema: str = SCHEMA
    ) -> list[tuple[Any, ...]]:
        """Run a statement, `{schema}` being *schema*, and return its rows, if it has any."""
        told = sql.SQL(text).format(schema=sql.Identifier(schema))
        cursor = self.connection.execute(told, values or None)
        return cursor.fetchall() if cursor.description else []

    def renew(self, schema: str = SCHEMA) -> None:
        """Make the schema anew, and let the server write down what it owes from before."""
        self.claims.clear(schema)
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
        full_pages = self._full_pages(before.wal, now.wal)
        return Spent(
            now.at - before.at,
            now.commits - before.commits,
            now.wal - before.wal,
            full_pages,
            now.server_cpu - before.server_cpu,
        )

    def blind_to(self) -> list[str]:
        """What cannot be measured here, each as a sentence that says why."""
        sentences: list[str] = []
        if self._postmaster is None:
            sentences.append(
                "no CPU of the server: /proc tells it only of a server on this very machine"
            )
        if not self._inspects_wal:
            sentences.append(
                "no bytes of WAL: only pg_walinspect (PostgreSQL 15, its contrib, and a superuser)"
                " tells full-page images from the rest"
            )
        return sentences

    def _full_pages(self, before: int, now: int) -> float:
        """Bytes of full-page images between two positions in the WAL; nan where nobody tells."""
        if not self._inspects_wal:
            return math.nan
        if before == now:
            return 0.0
        try:
            with self._walinspect():
                [[found]] = self.query(
                    "select coalesce(sum(fpi_size), 0) from pg_get_wal_stats("
                    "'0/0'::pg_lsn + %s::numeric, '0/0'::pg_lsn + %s::numeric)",
                    before,
                    now,
                )
        except psycopg.Error:
            # So much was written that the server has removed the beginning.
            return math.nan
        return float(found)

    def _may_inspect_wal(self) -> bool:
        try:
            with self._walinspect():
                [[may]] = self.query(
                    "select has_function_privilege('pg_get_wal_stats(pg_lsn, pg_lsn, boolean)',"
                    " 'execute')"
                )
        except psycopg.Error:
            return False
        return bool(may)

    @contextlib.contextmanager
    def _walinspect(self) -> Generator[None]:
        # Rolled back: an extension must not stay in somebody's database.
        with self.connection.transaction(force_rollback=True):
            self.query("create extension if not exists pg_walinspect")
            yield

    def server_cpu(self) -> float:
        """CPU seconds of the server so far, of the processes that have ended too."""
        if self._postmaster is None:
            return math.nan
        try:
            folder = Path(f"/proc/{self._postmaster}")
            ticks = sum(_times(self._postmaster))
            children = (folder / "task" / str(self._postmaster) / "children").read_text().split()
        except OSError:
            return math.nan
        for child in children:
            with contextlib.suppress(OSError):
                ticks += sum(_times(int(child))[:2])
        return ticks / TICKS

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        """Have a session that goes on tell its counts at once; PostgreSQL 14 cannot be asked to."""
        with contextlib.suppress(psycopg.errors.UndefinedFunction):
            connection.execute("select pg_stat_force_next_flush()", prepare=False)

    def is_drained(self) -> bool:
        """Whether no task is left that has not ended."""
        [[left]] = self.query("select exists (select from {schema}.live)")
        return not left

    def wait_until_drained(self, *, within_seconds: float = 120.0) -> float:
        """Return the monotonic time when nothing is left; BenchmarkFailed if it takes too long."""
        give_up_at = monotonic() + within_seconds
        while not self.is_drained():
            if monotonic() > give_up_at:
                raise BenchmarkFailed(f"not drained within {within_seconds:g} s")
            sleep(0.005)
        return monotonic()

    def finished(self) -> dict[str, int]:
        """How many tasks have ended, by state."""
        return dict(self.query("select state, count(*) from {schema}.finished group by state"))

    def must_have_succeeded(self, tasks: int) -> None:
        """Stop the benchmark with a sentence unless the database holds so many successes."""
        found = self.finished()
        if found != ({"succeeded": tasks} if tasks else {}) or not self.is_drained():
            raise BenchmarkFailed(f"lost or doubled: of {tasks} tasks the database says {found}")

    def machine(self) -> dict[str, Any]:
        """What the figures were taken on."""
        [[version, fsync, sync, buffers, wal]] = self.query(
            "select current_setting('server_version'), current_setting('fsync'),"
            " current_setting('synchronous_commit'), current_setting('shared_buffers'),"
            " current_setting('max_wal_size')"
        )
        return {
            "wherry": __version__,
            "postgresql": version,
            "python": platform.python_version(),
            "fsync": fsync,
            "synchronous_commit": sync,
            "shared_buffers": buffers,
            "max_wal_size": wal,
            "cores": _cores(),
            "load": round(os.getloadavg()[0], 2),
        }


def _postmaster(connection: psycopg.Connection[Any]) -> int | None:
    """Return the process that all of the server's are children of, if it runs on this machine."""
    if not (connection.info.host.startswith("/") or connection.info.host in _HERE):
        return None
    row = connection.execute("select pg_backend_pid()").fetchone()
    try:
        assert row is not None
        stat = Path(f"/proc/{row[0]}/stat").read_text()
        title = Path(f"/proc/{row[0]}/cmdline").read_text()
    except OSError:
        return None
    # With a port that leads into a container the number may be some other process's, also another
    # server's; the title of ours has the database in it.
    name, rest = stat.split("(", 1)[1].rsplit(")", 1)
    is_it = name.startswith("postgres") and f" {connection.info.dbname} " in title
    return int(rest.split()[1]) if is_it else None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _times(pid: int) -> list[int]:
    """Return the ticks in user and in kernel mode: its own two, and its ended children's two."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(field) for field in fields[11:15]]
