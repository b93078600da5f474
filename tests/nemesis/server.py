"""A PostgreSQL of the run's own, durable as in production, and the ways to hurt it.

It is the embedded server on a private home. Its keeper starts it again when it is shot, as a
service manager would; but a server that dies more than five times a minute is given up, so a plan
must not shoot more often.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wherry.embedded import acquire
from wherry.testing.postgres import fast_folder

# The one who must never be hit.
OBSERVER = "nemesis"
SETTINGS = {
    "max_connections": "150",
    "deadlock_timeout": "200ms",
    "log_line_prefix": "%m [%p] (%a) ",
}
PATIENCE_SECONDS = 60.0
_VICTIMS = (
    "select pid from pg_stat_activity"
    " where backend_type = 'client backend' and application_name <> %(observer)s"
    "   and (%(state)s::text is null or state = %(state)s)"
)


def free_port() -> int:
    """Return a port of this machine that nobody has at the moment."""
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


class Server:
    """A running private server; leaving the `with` block stops it and removes what it kept."""

    def __init__(self) -> None:
        # In memory if there is room: what a process has written outlives a kill there as well, and
        # a crash is mended in a tenth of the time. Open to the user that PostgreSQL runs as.
        self._folder = Path(tempfile.mkdtemp(prefix="nemesis-", dir=fast_folder())).resolve()
        self._folder.chmod(0o711)
        self._embedded = acquire(self._folder / "home", settings=SETTINGS)
        self.dsn = self._embedded.dsn
        # Whoever stands in front of the server's socket has one of the same name there.
        front = self._folder / "front"
        front.mkdir()
        given = conninfo_to_dict(self.dsn)
        name = f".s.PGSQL.{given['port']}"
        self.socket, self.front = Path(str(given["host"]), name), front / name
        self.front_dsn = make_conninfo(self.dsn, host=str(front))
        self._hoard: list[psycopg.Connection[Any]] = []

    @property
    def log(self) -> str:
        """What the server has written into its log."""
        return self._embedded.log.read_text(errors="replace")

    def connect(self) -> psycopg.Connection[Any]:
        """Connect, waiting for a server that is on its way up."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._connect()
            except psycopg.OperationalError:
                if time.monotonic() > ends_at:
                    raise
                if self._hoard:
                    # There may be none left but those.
                    self._hoard.pop().close()
                time.sleep(0.05)

    def terminate_backends(self, rng: random.Random, *, most: int) -> int:
        """End some connections in good order; returns how many."""
        with self.connect() as connection:
            victims = self._victims(connection)
            chosen = rng.sample(victims, min(most, len(victims)))
            for victim in chosen:
                connection.execute("select pg_terminate_backend(%s)", (victim,))
        return len(chosen)

    def exhaust(self, rng: random.Random) -> int:
        """Take every connection there is, and those of some who need theirs; returns how many."""
        taken = self._take_all()
        if self._hoard:
            self.terminate_backends(rng, most=6)
            taken += self._take_all()
        return min(taken, 1)

    def restore_connections(self) -> None:
        """Give back what `exhaust` has taken."""
        while self._hoard:
            self._hoard.pop().close()

    def _take_all(self) -> int:
        before = len(self._hoard)
        with suppress(psycopg.OperationalError):
            while True:
                self._hoard.append(self._connect())
        return len(self._hoard) - before

    def cancel_statements(self, rng: random.Random, *, most: int) -> int:
        """Cancel some statements that are under way, as their time limit would; how many."""
        with self.connect() as connection:
            victims = self._victims(connection, state="active")
            chosen = rng.sample(victims, min(most, len(victims)))
            for victim in chosen:
                connection.execute("select pg_cancel_backend(%s)", (victim,))
        return len(chosen)

    def kill_backend(self, rng: random.Random) -> int:
        """Shoot one backend, whereupon PostgreSQL ends all others and recovers."""
        with self.connect() as connection:
            victims = self._victims(connection)
        if not victims:
            return 0
        with suppress(ProcessLookupError):
            os.kill(rng.choice(victims), signal.SIGKILL)
            return 1
        return 0

    def restart(self) -> int:
        """Shut down without any care, as in a power cut; the keeper starts it again."""
        [data] = (path for path in self._embedded.home.iterdir() if path.name.isdigit())
        with suppress(ProcessLookupError, FileNotFoundError, ValueError):
            os.kill(int((data / "postmaster.pid").read_text().split("\n")[0]), signal.SIGQUIT)
            return 1
        return 0

    def lock(self, table: LiteralString) -> psycopg.Connection[Any] | None:
        """Lock a table until the connection is closed; None if the lock was not to be had soon."""
        connection = self.connect()
        try:
            connection.execute("set lock_timeout = '1s'; begin")
            connection.execute(f"lock table wherry.{table} in access exclusive mode")
        except psycopg.OperationalError:
            connection.close()
            return None
        return connection

    def close(self) -> None:
        """Stop the server, and remove its files."""
        self._embedded.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.dsn, autocommit=True, application_name=OBSERVER, connect_timeout=5
        )

    def _victims(self, connection: psycopg.Connection[Any], state: str | None = None) -> list[int]:
        of = {"observer": OBSERVER, "state": state}
        return [int(pid) for (pid,) in connection.execute(_VICTIMS, of)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
