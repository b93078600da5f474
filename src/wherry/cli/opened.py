"""Finds the database that a verb is about, and opens an App on it.

The order is `--dsn`, `$WHERRY_DSN`, then an embedded server that is already running. None is ever
started because nobody named a database: a production service whose variable is missing must not
fill a private one in silence.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wherry.cli.asked import Asked
from wherry.cli.output import Output
from wherry.config import DEFAULT_SCHEMA, DSN_VARIABLE
from wherry.errors import DSNMissing

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.commands.audit import Actor

EMBEDDED = "embedded:"
# Somebody waits for the answer; an App in a service has more patience, for a failover.
_PATIENCE_SECONDS = 3.0


def named_dsn(asked: Asked) -> str:
    """Return the DSN as it was named, or that of a running embedded server. Raises DSNMissing."""
    given = asked.dsn or os.environ.get(DSN_VARIABLE)
    if given:
        return given
    return joined(asked)


def joined(asked: Asked) -> str:
    """Return the DSN of the embedded server that is running, and say so. Raises DSNMissing."""
    from wherry.embedded import running

    dsn = running()
    if dsn is None:
        raise DSNMissing
    Output(asked).note("no database was named: joining the embedded PostgreSQL that is running")
    return dsn


def log_for_people(asked: Asked) -> None:
    """Log what goes wrong, and with -v more, if this process is ours."""
    if asked.owns_process:
        from wherry.cli import logs

        logs.configure(verbosity=asked.verbosity - 1)


@contextmanager
def opened(asked: Asked) -> Generator[App, None, None]:
    """Give an App on the database, whose schema fits; closed afterwards."""
    from wherry.app.app import App
    from wherry.migrations import check

    log_for_people(asked)
    schema = asked.schema or DEFAULT_SCHEMA
    with App(named_dsn(asked), schema=schema, pool_size=2, pool_timeout=_PATIENCE_SECONDS) as app:
        if not app.through_server:
            # One query on a connection of its own: it tells at once what is wrong, and how.
            check(app.dsn, schema=app.schema)
        app.actor = operator()
        yield app


@contextmanager
def database(asked: Asked) -> Generator[str, None, None]:
    """Give the real DSN; an embedded server is held meanwhile, and not migrated by itself."""
    from wherry import embedded

    log_for_people(asked)
    dsn = named_dsn(asked)
    home = embedded.parse(dsn)
    if home is None:
        yield dsn
        return
    with embedded.acquire(home) as held:
        yield held.dsn


def operator() -> Actor:
    """Return who sits here, as the audit says it: the user of the system, and the machine."""
    from wherry.commands.audit import Actor
    from wherry.domain.token import BY_HAND

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that has no name.
        user = str(os.getuid())
    return Actor(f"{BY_HAND}{user}@{socket.gethostname()}")
