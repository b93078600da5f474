"""A PostgreSQL that listens on a port of this machine, and a pair of them: a primary, its standby.

Unlike the embedded server nobody starts it again: who fails over is to be another one.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg.conninfo import make_conninfo

from tests.nemesis.server import OBSERVER, free_port
from wherry.embedded.find import find_binaries
from wherry.embedded.identity import give_folder, server_identity, start
from wherry.testing.postgres import fast_folder

PATIENCE_SECONDS = 150.0
USER = "wherry"
SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=60",
    "shared_buffers=64MB",
    "wal_keep_size=128MB",
    "wal_sender_timeout=5s",
    "wal_receiver_timeout=5s",
    "wal_retrieve_retry_interval=200ms",
)


class Node:
    """One server, with its data in *folder*."""

    def __init__(self, folder: Path, *, settings: tuple[str, ...] = ()) -> None:
        self._programs = find_binaries().bin
        self._folder = folder
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
        self.data = folder / "data"
        self._identity = server_identity(self.data)
        self._settings = (*SETTINGS, *settings)
        self.port = free_port()
        self.dsn = make_conninfo(
            host="127.0.0.1", port=self.port, user=USER, dbname="postgres", connect_timeout=2
        )
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the data of a server of its own."""
        give_folder(self.data, self._identity)
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync")

    def copy(self, primary: Node) -> None:
        """Take over a primary's data, to be its standby."""
        shutil.rmtree(self.data, ignore_errors=True)
        give_folder(self.data, self._identity)
        self._run("pg_basebackup", "-d", primary.dsn, "-D", self.data, "-R", "-c", "fast")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [part for each in (*self._settings, f"port={self.port}") for part in ("-c", each)]
        with (self._folder / "log").open("ab") as log:
            command: list[str | Path] = [self._programs / "postgres", "-D", self.data, *options]
            self._process = start(command, self._identity, output=log.fileno())
        self.wait_for(lambda: self.value("select 1") == 1)

    @property
    def runs(self) -> bool:
        """Whether it has not ended, by itself or by us."""
        return self._process is not None and self._process.poll() is None

    def quit(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def connect(self) -> psycopg.Connection[Any]:
        """Connect as the one who is never hit."""
        return psycopg.connect(self.dsn, autocommit=True, application_name=OBSERVER)

    def value(self, asked: LiteralString) -> Any:
        """Return one value."""
        with self.connect() as connection:
            row = connection.execute(asked).fetchone()
            return None if row is None else row[0]

    def set(self, name: LiteralString, value: LiteralString) -> None:
        """Change a setting that holds without a restart."""
        with self.connect() as connection:
            connection.execute(f"alter system set {name} = '{value}'")
            connection.execute("select pg_reload_conf()")

    def wait_for(self, fact: Callable[[], object]) -> None:
        """Wait until something is true of it; what cannot be asked is not true yet."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(psycopg.Error):
                if fact():
                    return
            if time.monotonic() > ends_at:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def _run(self, program: str, *arguments: str | Path) -> None:
        with (self._folder / "log").open("ab") as log:
            ran = start([self._programs / program, *arguments], self._identity, output=log.fileno())
        if ran.wait(PATIENCE_SECONDS):
            raise RuntimeError((self._folder / "log").read_text()[-2000:])


class Pair:
    """A primary whose commits wait for a standby; leaving the `with` block removes both."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nemesis-pair-", dir=fast_folder())).resolve()
        self.folder.chmod(0o711)
        self.primary, self.standby = (Node(self.folder / name) for name in ("one", "two"))
        ports = f"{self.primary.port},{self.standby.port}"
        self.dsn = make_conninfo(self.primary.dsn, host="127.0.0.1,127.0.0.1", port=ports)

    def follow(self) -> None:
        """Make the standby anew from the primary, and let commits wait for it from now on."""
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.wait_for(
            lambda: self.primary.value("select state from pg_stat_replication") == "streaming"
        )
        self.primary.set("synchronous_standby_names", "*")
        self.primary.wait_for(
            lambda: self.primary.value("select sync_state from pg_stat_replication") == "sync"
        )

    def fail_over(self) -> None:
        """End the primary as in a power cut, and promote the standby, which has none itself."""
        self.primary.quit()
        self.primary, self.standby = self.standby, self.primary
        self.primary.set("synchronous_standby_names", "")
        self.primary.value("select pg_promote(true, 30)")

    def __enter__(self) -> Self:
        self.primary.make()
        self.primary.start()
        self.follow()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in (self.standby, self.primary):
            node.quit()
        shutil.rmtree(self.folder, ignore_errors=True)
