"""Fresh PostgreSQL databases for tests: one is migrated, and every test gets a copy of it.

The server is an embedded one of the tests' own, shared by all test processes of this user and
gone with the last of them. Whoever finds the copy slow should look where the server's files are:
in memory a copy takes 10 ms, on a disk 30 times that, since a database is some 300 small files.

    WHERRY_TEST_DSN    use this server instead (a role that may create databases)
    WHERRY_PG_BIN      use the PostgreSQL in this folder
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from wherry.config import DEFAULT_SCHEMA
from wherry.embedded import Embedded, acquire, find_binaries
from wherry.migrations import migrate
from wherry.migrations.files import read_folder

DSN_VARIABLE = "WHERRY_TEST_DSN"
MEMORY = Path("/dev/shm")
# The server's own files, some templates, and the databases of a few dozen tests at once.
ROOM_BYTES = 2 * 1024**3
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    # Many test processes at once, some of whose tests open dozens of connections.
    "max_connections": "1000",
    "max_prepared_transactions": "100",
}
# Names this module gives; "wherry_test_<run>_<n>" belongs to the run that holds the lock <run>.
TEMPLATES = "wherry_template_"
DATABASES = "wherry_test_"
TEMPLATES_KEPT = 8
# The first half of the advisory locks' keys; any constant does.
LOCKS = 0x57_54_53_54


class TemplateServer:
    """A PostgreSQL server with a migrated template, of which copies are made.

    *dsn* names a server to use; without it $WHERRY_TEST_DSN does, and without that the tests' own
    embedded one is started. Any number of processes may make one at once: the template is migrated
    by the first. Databases that a killed process has left behind are dropped by the next.

    *prepare* is called with the DSN of a migrated database, once for each process, to make tables
    of one's own there: it is that one which is copied then.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        prepare: Callable[[str], object] | None = None,
    ) -> None:
        self.schema = schema
        self._embedded: Embedded | None = None
        named = dsn or os.environ.get(DSN_VARIABLE)
        if not named:
            self._embedded = start_embedded()
            named = self._embedded.dsn
        self.dsn = named
        self._turn = threading.Lock()
        self._run = secrets.randbits(31)
        self._made = 0
        self._admin = self._connect()
        self._strategy: LiteralString = self._choose_strategy()
        self._drop_left_behind()
        self.template = self._ensure_template()
        if prepare is not None:
            self.template = self._prepare(prepare)

    def create(self) -> str:
        """Return the DSN, in the form of a URL, of a new copy of the template."""
        with self._turn:
            self._made += 1
            name = f"{DATABASES}{self._run:08x}_{self._made}"
            self._execute("create database {} template {}" + self._strategy, name, self.template)
        return url_of(self.dsn, name)

    def drop(self, dsn: str) -> None:
        """Drop a database that `create` made, whoever is still connected to it."""
        name = str(conninfo_to_dict(dsn)["dbname"])
        with self._turn:
            self._execute("drop database if exists {} with (force)", name)

    @contextlib.contextmanager
    def database(self) -> Generator[str]:
        """Give the DSN of a new copy of the template, which is dropped at the end."""
        dsn = self.create()
        try:
            yield dsn
        finally:
            self.drop(dsn)

    def close(self) -> None:
        """Drop what is left of this run's databases, and let go of the server."""
        with self._turn:
            for name in self._databases(f"{DATABASES}{self._run:08x}_"):
                self._execute("drop database if exists {} with (force)", name)
            self._admin.close()
            if self._embedded is not None:
                self._embedded.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)
        connection.execute("select pg_advisory_lock(%s, %s)", [LOCKS, self._run])
        return connection

    def _choose_strategy(self) -> LiteralString:
        if self._admin.info.server_version < 150000:
            return ""
        # Copying files waits for two checkpoints, which are cheap only where nothing is synced.
        [[fsync]] = self._admin.execute("show fsync").fetchall()
        return " strategy wal_log" if fsync == "on" else " strategy file_copy"

    def _ensure_template(self) -> str:
        marks = "".join(f"{file.name} {file.checksum}\n" for file in read_folder())
        digest = hashlib.sha256(f"{self.schema}\n{marks}".encode()).hexdigest()[:16]
        name = f"{TEMPLATES}{digest}"
        with self._locked(f"template {digest}"):
            if self._is_template(name):
                return name
            # A half made one, of a process that was killed.
            self._execute("drop database if exists {} with (force)", name)
            self._execute("create database {} template template0", name)
            migrate(url_of(self.dsn, name), schema=self.schema)
            self._execute("alter database {} with is_template true allow_connections false", name)
            self._drop_old_templates()
        return name

    def _prepare(self, prepare: Callable[[str], object]) -> str:
        dsn = self.create()
        prepare(dsn)
        name = str(conninfo_to_dict(dsn)["dbname"])
        # A pool that was left open there would be in the way of every copy.
        self._execute("alter database {} with allow_connections false", name)
        self._admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
            [name],
        )
        return name

    def _is_template(self, name: str) -> bool:
        found = self._admin.execute(
            "select datistemplate from pg_database where datname = %s", [name]
        ).fetchone()
        return found is not None and bool(found[0])

    def _drop_old_templates(self) -> None:
        """Keep the newest few: who edits migrations makes one at each run."""
        for name in self._databases(TEMPLATES)[:-TEMPLATES_KEPT]:
            # Somebody may be copying it at this moment.
            with contextlib.suppress(psycopg.errors.ObjectInUse):
                self._execute("alter database {} with is_template false", name)
                self._execute("drop database if exists {}", name)

    def _drop_left_behind(self) -> None:
        """Drop the databases of runs that no longer hold their lock."""
        runs = {name.removeprefix(DATABASES)[:8] for name in self._databases(DATABASES)}
        for run in runs:
            key = int(run, 16)
            [[ours]] = self._admin.execute(
                "select pg_try_advisory_lock(%s, %s)", [LOCKS, key]
            ).fetchall()
            if not ours:
                continue
            try:
                if key != self._run:
                    for name in self._databases(f"{DATABASES}{run}_"):
                        self._execute("drop database if exists {} with (force)", name)
            finally:
                self._admin.execute("select pg_advisory_unlock(%s, %s)", [LOCKS, key])

    @contextlib.contextmanager
    def _locked(self, what: str) -> Generator[None]:
        """Have the advisory lock of that name, waiting for it."""
        key = int.from_bytes(hashlib.sha256(f"wherry {what}".encode()).digest()[:7])
        self._admin.execute("select pg_advisory_lock(%s)", [key])
        try:
            yield
        finally:
            self._admin.execute("select pg_advisory_unlock(%s)", [key])

    def _databases(self, prefix: str) -> list[str]:
        """Return the names that begin so, the oldest first."""
        found = self._admin.execute(
            "select datname from pg_database where starts_with(datname, %s) order by oid", [prefix]
        ).fetchall()
        return [str(name) for (name,) in found]

    def _execute(self, statement: LiteralString, *names: str) -> None:
        if self._admin.closed:
            self._admin = self._connect()
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def start_embedded() -> Embedded:
    """Return a hold on the tests' own embedded server of this user; it is started if need be."""
    found = find_binaries()
    where = hashlib.sha256(os.fsencode(found.bin)).hexdigest()[:8]
    home = _fast_folder() / f"wherry-test-{os.geteuid()}-{found.major}-{where}"
    return acquire(home, settings=SETTINGS)


def url_of(dsn: str, database: str | None = None) -> str:
    """Return the DSN as a URL, which libpq, asyncpg and SQLAlchemy read alike."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    user, password = parts.pop("user", ""), parts.pop("password", "")
    name = parts.pop("dbname", "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    return (
        f"postgresql://{login}{'@' if login else ''}/{quote(database or name, safe='')}"
        f"?{urlencode(parts, quote_via=quote)}"
    )


def _fast_folder() -> Path:
    """Return a folder in memory if there is one with room enough, else the temporary one."""
    try:
        memory = os.statvfs(MEMORY)
    except OSError:
        return Path(tempfile.gettempdir())
    has_room = shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    # As root the server's programs may have to be copied to where their user can run them.
    closed = memory.f_flag & (os.ST_RDONLY | (os.ST_NOEXEC if os.geteuid() == 0 else 0))
    usable = has_room and not closed and os.access(MEMORY, os.W_OK)
    return MEMORY if usable else Path(tempfile.gettempdir())
