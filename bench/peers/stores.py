"""Where peers keep their tasks, and what can be asked there: one PostgreSQL and one Redis for all.

A peer has a database of its own, copied for each run from one in which its tables have been made
once, so that no run pays for the dead rows of the one before.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from bench.peers.roster import Peer
from wherry.errors import ConfigError

PREFIX = "wherry_peers_"
# Two at once would drop each other's databases.
CLAIM = 0x77686572_70656572


class Postgres:
    """The server, by its DSN. Raises ConfigError if another benchmark of peers is there."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        [[alone]] = self.connection.execute("select pg_try_advisory_lock(%s)", [CLAIM]).fetchall()
        if not alone:
            self.connection.close()
            raise ConfigError("another benchmark of peers runs on this server: wait for its end")
        self.counts_statements = False
        with contextlib.suppress(psycopg.Error):
            self.connection.execute("create extension if not exists pg_stat_statements")
            self.connection.execute("select from pg_stat_statements limit 1")
            self.counts_statements = True
        self.postmaster = _parent(self.connection)
        self._made: set[str] = set()

    def environment(self, peer: Peer, *, template: bool = False) -> dict[str, str]:
        """What a program needs to know to find its database."""
        info = self.connection.info
        given = conninfo_to_dict(self.dsn)
        return {
            "PEER_HOST": str(given.get("host") or info.host),
            "PEER_PORT": str(info.port),
            "PEER_USER": info.user,
            "PEER_PASSWORD": info.password,
            "PEER_DATABASE": _name(peer, template=template),
        }

    def renew(self, peer: Peer, setup: Callable[[Mapping[str, str]], None]) -> None:
        """Make a peer's database anew, from its template; *setup* makes that once."""
        template, own = _name(peer, template=True), _name(peer)
        if peer.name not in self._made:
            self._drop(own)
            self._drop(template)
            self._run("create database {}", template)
            setup(self.environment(peer, template=True))
            self._made.add(peer.name)
        self._drop(own)
        _within(10, lambda: self._run("create database {} template {}", own, template))
        self.checkpoint()

    def analyze(self, peer: Peer) -> None:
        """Do what autovacuum would have done by now, for each peer alike."""
        with self.connect(peer) as connection:
            connection.execute("vacuum analyze")
        self.checkpoint()

    def checkpoint(self) -> None:
        """Let the server write what it owes, if we may ask for it."""
        with contextlib.suppress(psycopg.Error):
            self.connection.execute("checkpoint")

    def connect(self, peer: Peer) -> psycopg.Connection[Any]:
        """Connect to a peer's database."""
        return psycopg.connect(
            self.dsn, dbname=_name(peer), autocommit=True, prepare_threshold=None
        )

    def statements(self, peer: Peer) -> int:
        """How many statements, or else transactions, a peer's database has had so far."""
        text: LiteralString = (
            "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where dbid ="
            " (select oid from pg_database where datname = %s) and toplevel"
            if self.counts_statements
            else "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
        )
        return int(self.connection.execute(text, [_name(peer)]).fetchall()[0][0])

    def leave(self) -> None:
        """Remove the databases that were made."""
        rows = self.connection.execute(
            "select datname from pg_database where starts_with(datname, %s)", [PREFIX]
        ).fetchall()
        for (name,) in rows:
            self._drop(name)
        self.connection.close()

    def _drop(self, name: str) -> None:
        self._run("drop database if exists {} with (force)", name)

    def _run(self, text: LiteralString, *names: str) -> None:
        self.connection.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


class Redis:
    """A Redis of the benchmark's own: in memory only, as its fastest users have it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="wherry-peers-redis-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _within(10, lambda: self.ask("PING"))

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def ask(self, *words: str) -> str:
        """Send one command, and return the first line of its answer, or all of a text."""
        said = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"*{len(words)}\r\n{said}".encode())
            answers = connection.makefile("rb")
            first = answers.readline().decode().strip()
            if first.startswith("$") and int(first[1:]) > 0:
                return answers.read(int(first[1:])).decode()
            return first[1:]

    def size(self, name: str) -> int:
        """How long a list is, or how large a hash."""
        kind = self.ask("TYPE", name)
        sizes = {"list": "LLEN", "hash": "HLEN", "zset": "ZCARD"}
        return int(self.ask(sizes[kind], name)) if kind in sizes else 0

    def commands(self) -> int:
        """How many commands it has had."""
        told = self.ask("INFO", "stats")
        line = next(one for one in told.splitlines() if "total_commands_processed" in one)
        return int(line.split(":")[1])

    def leave(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)


def _name(peer: Peer, *, template: bool = False) -> str:
    return f"{PREFIX}{peer.name}{'_made' if template else ''}"


def _parent(connection: psycopg.Connection[Any]) -> int | None:
    """The process that all of the server's are children of, if it runs on this machine."""
    if not connection.info.host.startswith("/"):
        return None
    try:
        stat = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
    except OSError:
        return None
    name, rest = stat.split("(", 1)[1].rsplit(")", 1)
    return int(rest.split()[1]) if name.startswith("postgres") else None


def _within(seconds: float, act: Callable[[], Any]) -> None:
    """Try again for a while: what a peer's process has just left may still be closing."""
    give_up_at = monotonic() + seconds
    while True:
        try:
            act()
        except (OSError, psycopg.errors.ObjectInUse):
            if monotonic() > give_up_at:
                raise
            sleep(0.05)
        else:
            return
