"""Fresh PostgreSQL databases for tests: one is migrated, and every test gets a copy of it.

The server is an embedded one of the tests' own, shared by all test processes of this user and
gone with the last of them. Whoever finds the copy slow should look where the server's files are:
a database is some 300 small files, which take 10 ms in memory and on a busy disk half a second.

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
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from wherry.config import DEFAULT_SCHEMA
from wherry.doctor.server import ALLOWANCE
from wherry.embedded import Embedded, acquire, find_binaries, running
from wherry.migrations import migrate
from wherry.migrations.files import read_folder

DSN_VARIABLE = "WHERRY_TEST_DSN"
MEMORY = Path("/dev/shm")
# The server's own files, some templates, and the databases of a few dozen tests at once.
ROOM_BYTES = 2 * 1024**3
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    # What workers and servers would refuse; nothing in it outlives the tests.
    ALLOWANCE: "on",
    # Many test processes at once, some of whose tests open dozens of connections.
    "max_connections": "1000",
    "max_prepared_transactions": "100",
}
HOMES = "wherry-test-"
UNUSED_SECONDS = 7 * 86_400
# The names of our databases: "wherry_test_<run>_<n>" is of the run that is connected by that name.
TEMPLATES = "wherry_template_"
DATABASES = "wherry_test_"
CONNECTION = "wherry test run"
TEMPLATES_KEPT = 8
# Whatever else is said by roles, databases or the environment.
OPTIONS = "-c lock_timeout=0 -c statement_timeout=0 -c idle_session_timeout=0"
# What ends a try to drop a database that others use, own, or are dropping at this moment.
OBSTACLES = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.InternalError_,
    psycopg.errors.InvalidCatalogName,
    psycopg.errors.ObjectInUse,
)


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
        self._turn = threading.Lock()
        self._run = secrets.token_hex(4)
        self._made = 0
        named = dsn or os.environ.get(DSN_VARIABLE)
        if not named:
            self._embedded = start_embedded()
            named = self._embedded.dsn
        self.dsn = named
        self._admin = self._connect()
        try:
            self._strategy: LiteralString = self._choose_strategy()
            self._needs_allowance = self._is_unsafe()
            if self._embedded is not None:
                self._reset_role()
            self._drop_left_behind()
            self.template = self._ensure_template()
            if prepare is not None:
                self.template = self._prepare(prepare)
        except BaseException:
            self.close()
            raise

    def create(self) -> str:
        """Return the DSN, in the form of a URL, of a new copy of the template."""
        return self._create(self.template)

    def drop(self, dsn: str) -> None:
        """Drop a database that `create` made, whoever is still connected to it."""
        with self._turn:
            self._execute("drop database if exists {} with (force)", name_in(dsn))

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
            for name in self._databases(f"{DATABASES}{self._run}_"):
                self._try_to_drop(name)
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
        return psycopg.connect(
            self.dsn,
            autocommit=True,
            connect_timeout=10,
            options=OPTIONS,
            application_name=f"{CONNECTION} {self._run}",
        )

    def _create(self, template: str) -> str:
        with self._turn:
            self._made += 1
            name = f"{DATABASES}{self._run}_{self._made}"
            self._execute("create database {} template {}" + self._strategy, name, template)
            if self._needs_allowance:
                # Without that right, those who start a worker there have to say it themselves.
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    self._execute("alter database {} set {} = 'on'", name, ALLOWANCE)
        return url_of(self.dsn, name)

    def _choose_strategy(self) -> LiteralString:
        if self._admin.info.server_version < 150000:
            return ""
        # Copying files waits for two checkpoints, which are cheap only where nothing is synced.
        [[fsync]] = self._rows("show fsync")
        return " strategy wal_log" if fsync == "on" else " strategy file_copy"

    def _is_unsafe(self) -> bool:
        """Whether workers would refuse this server, which does not say itself that it is unsafe."""
        [[unsafe]] = self._rows(
            "select 'off' in (current_setting('fsync'), current_setting('full_page_writes'))"
            " and coalesce(current_setting(%s, true), '') = ''",
            ALLOWANCE,
        )
        return bool(unsafe)

    def _ensure_template(self) -> str:
        marks = "".join(f"{file.name} {file.checksum}\n" for file in read_folder())
        ours = f"{TEMPLATES}{_digest(self.schema)}_"
        name = ours + _digest(marks)
        # The turn only saves work. It is one among those who connect to the same database; others
        # find the name taken in the end.
        with self._locked(name):
            if not self._databases(name):
                dsn = self._create("template0")
                migrate(dsn, schema=self.schema)
                self._freeze(dsn, "alter database {} with is_template true allow_connections false")
                with contextlib.suppress(psycopg.errors.DuplicateDatabase):
                    self._execute("alter database {} rename to {}", name_in(dsn), name)
                # Who edits migrations makes one at each run.
                for old in self._databases(ours)[:-TEMPLATES_KEPT]:
                    self._try_to_drop(old)
        return name

    def _prepare(self, prepare: Callable[[str], object]) -> str:
        dsn = self.create()
        prepare(dsn)
        return self._freeze(dsn, "alter database {} with allow_connections false")

    def _freeze(self, dsn: str, statement: LiteralString) -> str:
        """Keep everybody out, also a pool that was left open: nobody can copy what is in use."""
        name = name_in(dsn)
        self._execute(statement, name)
        # Not the autovacuum, which is nobody's: it gives way by itself, and few roles may end it.
        self._rows(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = %s and usesysid is not null",
            name,
        )
        return name

    def _drop_left_behind(self) -> None:
        """Drop the databases of runs that are no longer connected."""
        # In this order: a run connects before it makes a database.
        left = self._databases(DATABASES)
        running = self._rows("select application_name from pg_stat_activity")
        runs = {name.removeprefix(CONNECTION).strip() for (name,) in running}
        for name in left:
            if name.removeprefix(DATABASES).partition("_")[0] not in runs:
                self._try_to_drop(name)

    def _try_to_drop(self, name: str) -> None:
        with contextlib.suppress(*OBSTACLES):
            # What another run is dropping, or was when it was killed, can only be dropped.
            with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):
                self._execute("alter database {} with is_template false", name)
            self._execute("drop database {} with (force)", name)

    def _reset_role(self) -> None:
        """Forget settings that a test gave to the role that all tests are."""
        given = self._rows(
            "select 1 from pg_db_role_setting s join pg_roles r on r.oid = s.setrole"
            " where r.rolname = current_user and s.setdatabase = 0"
        )
        if given:
            with contextlib.suppress(*OBSTACLES):
                self._execute("alter role current_user reset all")

    @contextlib.contextmanager
    def _locked(self, what: str) -> Generator[None]:
        """Have the advisory lock of that name, waiting for it."""
        key = int(_digest(what), 16)
        self._rows("select pg_advisory_lock(%s)", key)
        try:
            yield
        finally:
            self._rows("select pg_advisory_unlock(%s)", key)

    def _databases(self, prefix: str) -> list[str]:
        """Return the names that begin so, the oldest first."""
        found = self._rows(
            "select datname from pg_database where starts_with(datname, %s) order by oid", prefix
        )
        return [str(name) for (name,) in found]

    def _rows(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection().execute(statement, parameters).fetchall()

    def _execute(self, statement: LiteralString, *names: str) -> None:
        self._connection().execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _connection(self) -> psycopg.Connection[Any]:
        if self._admin.closed:
            # The server was started again, or somebody ended all connections.
            self._admin = self._connect()
        return self._admin


def start_embedded() -> Embedded:
    """Return a hold on the tests' own embedded server of this user; it is started if need be."""
    found = find_binaries()
    home = fast_folder() / f"{HOMES}{os.geteuid()}-{found.major}-{_digest(str(found.bin))}"
    remove_unused_homes(home)
    return acquire(home, settings=SETTINGS)


def remove_unused_homes(ours: Path) -> None:
    """Remove the homes of this user's other servers, beside *ours*, that nobody used for a week.

    Each new environment has PostgreSQL's programs in another place, and so a home of its own.
    """
    for home in ours.parent.glob(f"{HOMES}{os.geteuid()}-*"):
        with contextlib.suppress(OSError):
            # The server writes there when it starts and when it stops.
            unused_seconds = time.time() - (home / "postgres.log").stat().st_mtime
            if home != ours and unused_seconds > UNUSED_SECONDS and running(home) is None:
                shutil.rmtree(home)


def name_in(dsn: str) -> str:
    """Return the name of the database in a DSN."""
    return str(conninfo_to_dict(dsn).get("dbname") or "")


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def fast_folder(memory: Path = MEMORY) -> Path:
    """Return the folder in memory if it is there and has room enough, else the temporary one."""
    try:
        mounted = os.statvfs(memory)
    except OSError:
        return Path(tempfile.gettempdir())
    has_room = mounted.f_bavail * mounted.f_frsize >= ROOM_BYTES
    # As root the server's programs may have to be copied to where their user can run them.
    closed = mounted.f_flag & (os.ST_RDONLY | (os.ST_NOEXEC if os.geteuid() == 0 else 0))
    usable = has_room and not closed and os.access(memory, os.W_OK)
    return memory if usable else Path(tempfile.gettempdir())
