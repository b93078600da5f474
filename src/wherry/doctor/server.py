"""What has to be right with the server itself before anything is stored there.

These judgments are shared by the doctor and by the guard at the start of workers and servers, so
that the two never disagree. Each takes the one row of `read_server`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, Look, asked
from wherry.doctor.finding import Judgment, fine, problem, warning
from wherry.doctor.wording import names

# By which a server, a database or a role says that it is unsafe on purpose; read_server asks.
ALLOWANCE: Final = "wherry.allow_unsafe_database"
OLDEST, NEWEST = 14, 18
# PostgreSQL stores every character in this encoding only.
_ENCODING: Final = "UTF8"
# What says nothing of the bytes it stores gives text back as bytes.
_NO_ENCODING: Final = "SQL_ASCII"


@dataclass(frozen=True, slots=True)
class Server:
    """What the server says of itself; the fields are those of a row of `read_server`."""

    version_num: int
    version: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    encoding: str
    is_standby: bool
    is_read_only: bool
    is_allowed: bool
    # Of the process that answered.
    pid: int

    @classmethod
    def of_rows(cls, rows: Rows) -> Server:
        """Return the server of the one row there is."""
        [row] = rows
        return cls(*row)


def judge_version(server: Server) -> Judgment:
    """Whether it is a PostgreSQL that our statements are written for."""
    major = server.version_num // 10_000
    said = f"PostgreSQL {server.version}"
    if major < OLDEST:
        return problem(f"{said} is too old: Wherry needs {OLDEST} or newer", "upgrade the server")
    if major > NEWEST:
        return warning(
            f"{said} is newer than what this Wherry was tried on ({OLDEST} to {NEWEST})",
            "upgrade the wherry package",
        )
    return fine(said)


def judge_encoding(server: Server) -> Judgment:
    """Whether every character of a payload, a result or an error can be stored."""
    if server.encoding == _ENCODING:
        return fine(f"the database's encoding is {_ENCODING}")
    return problem(
        f"the database's encoding is {server.encoding}: payloads, results and errors with"
        " characters that it lacks cannot be stored",
        "make a database of another encoding, and move there:"
        " create database … encoding 'UTF8' template template0",
    )


def judge_durability(server: Server) -> Judgment:
    """Whether a commit that has returned survives a crash of the server."""
    off = [name for name in ("fsync", "full_page_writes") if getattr(server, name) == "off"]
    if off:
        # Where it was allowed it is meant so, as on a server for tests.
        return (warning if server.is_allowed else problem)(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the server or"
            " its machine can lose stored tasks and damage tables",
            f"set {names([f'{name} = on' for name in off])} in postgresql.conf and reload;"
            " leave it only where the storage itself keeps every write whole, or where nothing"
            " matters",
        )
    if server.synchronous_commit == "off":
        return warning(
            "synchronous_commit is off: a crash of the server loses what was committed in its last"
            " moments, stored tasks among it",
            "set synchronous_commit = on for this server, database or role",
        )
    return fine(
        f"fsync and full_page_writes are on, synchronous_commit is {server.synchronous_commit}"
    )


def judge_writing(server: Server) -> Judgment:
    """Whether it takes writes at all."""
    if server.is_standby:
        return problem(
            "connected to a read-only server: it is a standby",
            "name the primary in the DSN, or all hosts (host=a,b): then the one that takes writes"
            " is looked for, as with target_session_attrs=read-write",
        )
    if server.is_read_only:
        return problem(
            "connected to a read-only server: default_transaction_read_only is on for this server,"
            " database or role",
            "set it off, or connect to the server that takes writes; with all hosts in the DSN"
            " (host=a,b) it is looked for, as with target_session_attrs=read-write",
        )
    return fine("it takes writes")


def is_hopeless(server: Server) -> bool:
    """Whether nothing can work there, so that nobody can allow it."""
    return server.version_num // 10_000 < OLDEST or server.encoding == _NO_ENCODING


def _of_server(judge: Callable[[Server], Judgment]) -> Look:
    return asked("read_server", lambda rows: judge(Server.of_rows(rows)))


JUDGES: Final = {
    "version": judge_version,
    "encoding": judge_encoding,
    "durability": judge_durability,
    "writing": judge_writing,
}
CHECKS: Final = tuple(
    Check(name, _of_server(judge), of_tables=False) for name, judge in JUDGES.items()
)
