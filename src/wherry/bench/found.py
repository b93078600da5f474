"""Finds the database to measure on, and leaves it as it was found.

That is the one that was named, or else an embedded server of the benchmarks' own: fsync and
synchronous_commit are on, and checkpoints are few. SIGTERM ends a benchmark as Ctrl-C
does; only one that is killed leaves its schemas behind, and the next one tells how to drop them.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Generator

import psycopg

from wherry import embedded
from wherry.bench.place import Place
from wherry.config import DSN_VARIABLE
from wherry.dsn import is_server, read_dsn
from wherry.errors import ConfigError, Unavailable

# 60,000 tasks a second write 70 MB of WAL, so with the usual gigabyte there would be a
# checkpoint every ten seconds or less, and some runs would meet more of them than others.
# With four there is one in half a minute.
SETTINGS = {"max_wal_size": "4GB"}
Consent = Callable[[str], None]
Say = Callable[[str], None]


@contextlib.contextmanager
def found(dsn: str | None, *, consent: Consent, say: Say) -> Generator[Place]:
    """Give the place to measure at: *dsn*, $WHERRY_DSN, or a server of the benchmarks' own.

    *consent* is told what will be done to a database that somebody has named, and raises if that
    is not wanted; *say* is told what is left there if it could not be dropped. Raises ConfigError
    if another benchmark runs there, or has left something.
    """
    named = dsn or os.environ.get(DSN_VARIABLE, "")
    if is_server(named):
        raise ConfigError("a benchmark measures on a database, not through a server: name a DSN")
    home = embedded.parse(named) if named else embedded.default_home().with_name("bench")
    with contextlib.ExitStack() as stack:
        if home is not None:
            reached = stack.enter_context(embedded.acquire(home, settings=SETTINGS)).dsn
        else:
            read_dsn(reached := named)
        try:
            place = Place(reached, is_ours=not named)
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database is out of reach: {error}") from error
        stack.callback(place.connection.close)
        if named:
            consent(_what_will_be_done(place))
        place.claims.begin()
        stack.enter_context(interrupted_by_sigterm())
        stack.enter_context(_left_as_found(place, say))
        yield place


@contextlib.contextmanager
def _left_as_found(place: Place, say: Say) -> Generator[None]:
    try:
        yield
    finally:
        try:
            place.claims.end()
        except BaseException as error:
            say(f"left in the database ({error!r}), to be dropped by: {place.claims.left()}")
            if not isinstance(error, psycopg.Error):
                raise


@contextlib.contextmanager
def interrupted_by_sigterm() -> Generator[None]:
    """End on SIGTERM as on Ctrl-C: what takes part has sessions of its own, and must be ended."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _what_will_be_done(place: Place) -> str:
    info = place.connection.info
    host = info.host or "this machine"
    [[version]] = place.query("select current_setting('server_version')")
    return (
        f"This measures on PostgreSQL {version}, database {info.dbname!r} on {host}:"
        " it puts as much load on it as it can, in schemas of its own whose names begin with"
        " wherry_bench, and drops them at its end."
    )
