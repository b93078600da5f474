"""Takes a hold on the embedded server of a home, starting it if nobody has.

A hold is a shared lock on `users.lock`, kept by this process until its last `release`. It is kept
for a forked child as well, as long as the child lives: the child shares the open file, and may let
go of its copy without touching its parent's. A program that is executed inherits nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from wherry.embedded.call import Call
from wherry.embedded.find import Binaries, find_for
from wherry.embedded.home import Home, Record, default_home
from wherry.embedded.locks import is_held, open_lock, polls, try_exclusive, try_shared, unlock
from wherry.embedded.sockets import serves
from wherry.errors import EmbeddedError, EmbeddedStartFailed

# For a server that recovers from a crash on a slow disk. A common start takes under a second.
PATIENCE_SECONDS = 120.0
OURS = frozenset(
    {
        "data_directory",
        "external_pid_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)


class Embedded:
    """A hold on a running embedded server; leaving the `with` block lets go of it."""

    def __init__(self, hold: Hold, record: Record) -> None:
        self.home = hold.home.path
        self.dsn = record.dsn
        self.data = Path(record.data)
        self.log = hold.home.log
        self.bin = Path(record.binaries)
        self.version = record.version
        self._hold: Hold | None = hold

    def release(self) -> None:
        """Let go. The server stops by itself once no process holds it; a second call does nothing.

        In a forked child this ends the child's own copy of the hold, never its parent's.
        """
        with _guard.lock:
            hold, self._hold = self._hold, None
            if hold is None:
                return
            hold.count -= 1
            if hold.count > 0:
                return
            if _holds.get(hold.home.path) is hold:
                del _holds[hold.home.path]
            hold.close()
            _replace_dead_keeper(hold.home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Embedded PostgreSQL {self.version} in {self.home}>"


class Hold:
    """The one shared lock that this process has on a home, and how many share it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.fd = open_lock(home.lock("users"))
        self.count = 0

    def is_good(self) -> bool:
        """Tell whether the descriptor is still our open lock file.

        A process that became a daemon has closed it, and may have the number in other use; a
        home that was removed and made again has another file.
        """
        try:
            return os.path.samestat(os.fstat(self.fd), self.home.lock("users").lstat())
        except OSError:
            return False

    def close(self) -> None:
        """End this process's copy of the lock."""
        if self.is_good():
            # Never an unlock: a forked child or parent may have the same open file.
            os.close(self.fd)


class Guard:
    """One start at a time in this process, and what a fork in the middle of it must not keep."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.unfinished: list[int] = []

    def forget_in_child(self) -> None:
        """Leave an unfinished start to the parent; its thread is not in the child."""
        self.lock = threading.RLock()
        for fd in self.unfinished:
            os.close(fd)
        self.unfinished = []


_guard = Guard()
_holds: dict[Path, Hold] = {}
os.register_at_fork(after_in_child=_guard.forget_in_child)


def acquire(home: Path | None = None, *, settings: Mapping[str, object] | None = None) -> Embedded:
    """Return a hold on the server of *home*, which is started if nobody uses it yet.

    Blocks until the server takes connections; any number of processes may do this at once. Raises
    EmbeddedUnavailable where there is no PostgreSQL, EmbeddedStartFailed where it does not come up
    within two minutes, EmbeddedError for a home that cannot be used. *settings* are settings of
    PostgreSQL for whoever starts the server; who joins one takes it as it is.
    """
    place = Home(default_home() if home is None else home)
    given = _checked(settings or {})
    with _guard.lock:
        place.prepare()
        try:
            with _one_at_a_time(place):
                with _held(place) as hold:
                    record = _join_or_start(place, given)
                    hold.count += 1
                    _holds[place.path] = hold
                return Embedded(hold, record)
        except OSError as refused:
            raise EmbeddedError(f"the embedded server in {place.path}: {refused}") from refused


def running(home: Path | None = None) -> str | None:
    """Return the DSN of the server that runs in *home* now, or None; starts and holds nothing."""
    place = Home(default_home() if home is None else home)
    record = Record.read(place)
    return record.dsn if record is not None and serves(record.socket) else None


@contextlib.contextmanager
def _one_at_a_time(home: Home) -> Generator[None]:
    """Hold `start.lock`, so that many first starts give one server."""
    fd = open_lock(home.lock("start"))
    _guard.unfinished.append(fd)
    try:
        if not any(try_exclusive(fd) for _ in polls(within_seconds=PATIENCE_SECONDS)):
            raise EmbeddedStartFailed(
                f"another process has been starting it for {PATIENCE_SECONDS:.0f} s",
                log_path=str(home.log),
            )
        yield
    finally:
        # Unlocked, not only closed: a process forked meanwhile may have a copy of it.
        unlock(fd)
        _guard.unfinished.remove(fd)
        os.close(fd)


@contextlib.contextmanager
def _held(home: Home) -> Generator[Hold]:
    """Give this process's hold on *home*, a new one if need be, which is lost on an error."""
    known = _holds.get(home.path)
    if known is not None and known.is_good():
        yield known
        return
    hold = Hold(home)
    _guard.unfinished.append(hold.fd)
    try:
        # The keeper has it alone while it stops the server.
        if not any(try_shared(hold.fd) for _ in polls(within_seconds=PATIENCE_SECONDS)):
            raise EmbeddedStartFailed(
                f"the former server has been stopping for {PATIENCE_SECONDS:.0f} s",
                log_path=str(home.log),
            )
        yield hold
    except BaseException:
        hold.close()
        raise
    finally:
        _guard.unfinished.remove(hold.fd)


def _join_or_start(home: Home, settings: Mapping[str, str]) -> Record:
    """Return the server that is ready. Only for who has the start lock and a hold."""
    calls_left = 3
    for left in polls(within_seconds=PATIENCE_SECONDS):
        if is_held(home.lock("keeper")):
            record = Record.read(home)
            if record is not None and serves(record.socket):
                return record
        elif calls_left > 0:
            calls_left -= 1
            with Call(home, _binaries_for(home), settings) as call:
                call.wait_until_ready(within_seconds=left)
        else:
            raise EmbeddedStartFailed(
                "it came up and was gone again, three times", log_path=str(home.log)
            )
    raise EmbeddedStartFailed(
        f"its keeper has not made it ready for {PATIENCE_SECONDS:.0f} s", log_path=str(home.log)
    )


def _binaries_for(home: Home) -> Binaries:
    majors = home.majors()
    found = find_for(majors)
    if majors and found.major not in majors:
        import logging  # the keeper imports this module, and is to be up at once

        logging.getLogger(__name__).warning(
            "%s has data of PostgreSQL %s, and only %s was found (%s): starting with an empty"
            " database; what is in the old one stays there",
            home.path,
            ", ".join(map(str, majors)),
            found.version,
            found.bin,
        )
    return found


def _replace_dead_keeper(home: Home) -> None:
    """Send for a keeper if the server has lost its own, so that it does not run for ever."""
    record = Record.read(home)
    if record is None or is_held(home.lock("keeper")) or not is_held(home.lock("server")):
        return
    fd = open_lock(home.lock("start"))
    try:
        # Who is starting or joining just now sees to it.
        if try_exclusive(fd):
            found = Binaries(Path(record.binaries), record.version, "the running server")
            with Call(home, found, {}):
                pass
    finally:
        unlock(fd)
        os.close(fd)


def _checked(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings in PostgreSQL's spelling, or refuse those that cannot be given."""
    checked: dict[str, str] = {}
    for name, value in settings.items():
        if name in OURS or not re.fullmatch(r"[a-z_][a-z0-9_.]*", name):
            raise EmbeddedError(
                f"{name!r} cannot be set for the embedded server; not these either:"
                f" {', '.join(sorted(OURS))}"
            )
        checked[name] = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return checked
