"""`wherry up`: everything that development needs, in one process and until Ctrl-C.

With an APP that is the database, its schema, and a worker; without one, the database alone, kept
in order. Whoever names a database gets that one, migrated; else the embedded one is started.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import threading
from typing import TYPE_CHECKING

import click

from wherry.cli import logs, running
from wherry.cli.asked import Asked, with_database, with_verbosity
from wherry.cli.loading import load_app
from wherry.cli.opened import EMBEDDED
from wherry.cli.output import Output
from wherry.cli.text import count, plain
from wherry.cli.worker import finish, place, served, with_work
from wherry.config import (
    DEFAULT_LEASE_FOR,
    DEFAULT_SCHEMA,
    DEFAULT_SHUTDOWN_TIMEOUT,
    DSN_VARIABLE,
)
from wherry.errors import Unavailable

if TYPE_CHECKING:
    from wherry.app.app import App

log = logging.getLogger("wherry.up")

_MAINTAIN_EVERY_SECONDS = 5.0


@click.command()
@click.argument("app", metavar="[APP]", required=False)
@with_work
@with_database
@with_verbosity
@click.pass_obj
def up(
    asked: Asked,
    /,
    app: str | None,
    queues: str | None,
    queue: tuple[str, ...],
    concurrency: int,
    log_format: str,
) -> None:
    """Start an embedded PostgreSQL (unless one is named), migrate it, and run APP's handlers.

    Without APP it keeps the database up for other processes, until Ctrl-C.
    """
    from wherry.app.app import App

    if asked.owns_process:
        logs.keep_standard_streams()
    if app is None and (queues or queue):
        raise click.UsageError("queues are served for an APP: name one, such as shop.tasks:app")
    loaded = App(schema=asked.schema or DEFAULT_SCHEMA) if app is None else load_app(app)
    logs.configure(verbosity=asked.verbosity, as_json=log_format == "json")
    place(loaded, asked, otherwise=lambda _: EMBEDDED)
    applied = loaded.migrate()
    _greet(Output(asked), loaded, applied=len(applied), with_worker=app is not None)
    if app is None:
        _keep(loaded)
        return
    wanted = running.Run(
        queues=served(queues, queue),
        concurrency=concurrency,
        name=None,
        lease_for=DEFAULT_LEASE_FOR,
        shutdown_timeout=DEFAULT_SHUTDOWN_TIMEOUT,
        until_empty=False,
        listen=True,
    )
    finish(asked, loaded, wanted)


def _greet(out: Output, app: App, *, applied: int, with_worker: bool) -> None:
    dsn = app.dsn
    schema = plain(app.schema)
    new = f", {count(applied, 'migration')} applied" if applied else ""
    out.note(f"the database is up, and its schema {schema!r} is current{new}")
    if _is_private(dsn):
        out.note("for other terminals:")
        out.note(f"  export {DSN_VARIABLE}={shlex.quote(dsn)}")
        if shutil.which("psql"):
            out.note(f"  psql {shlex.quote(dsn)}")
    if with_worker:
        out.note(f"running {', '.join(map(plain, sorted(app.registry.names)))}")
    out.note("Ctrl-C stops it")


def _is_private(dsn: str) -> bool:
    """Whether the DSN is a socket of this machine, with nothing secret in it."""
    from psycopg.conninfo import conninfo_to_dict

    said = conninfo_to_dict(dsn)
    return str(said.get("host", "")).startswith("/") and "password" not in said


def _keep(app: App) -> None:
    """Keep the queue in order until a signal comes."""
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    with app:
        while not stopped.wait(_MAINTAIN_EVERY_SECONDS):
            try:
                app.reap()
            except Unavailable as error:
                log.warning("waiting for the database: %s", error)
