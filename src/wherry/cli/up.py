"""`wherry up`: everything that development needs, in one process and until Ctrl-C.

With an APP that is the database, its schema, a server and a worker; without one, no worker. Whoever
names a database gets that one, migrated; else the embedded one is started. The server listens on
this machine only, and asks for no tokens; if its ports are taken it takes free ones.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wherry.cli import logs, running
from wherry.cli.asked import Asked, with_database, with_verbosity
from wherry.cli.loading import load_app
from wherry.cli.opened import EMBEDDED
from wherry.cli.output import Output
from wherry.cli.server import run
from wherry.cli.text import plain
from wherry.cli.worker import finish, place, served, with_work
from wherry.config import (
    DEFAULT_GRPC_ADDRESS,
    DEFAULT_HTTP_ADDRESS,
    DEFAULT_LEASE_FOR,
    DEFAULT_SCHEMA,
    DEFAULT_SHUTDOWN_TIMEOUT,
    DSN_VARIABLE,
    ServerSettings,
)
from wherry.domain.counting import count
from wherry.errors import Unavailable
from wherry.telemetry.loggers import logger

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.run import Bound

log = logger("wherry.up")

_MAINTAIN_EVERY_SECONDS = 5.0
_LAST_WORDS: Final = "Ctrl-C stops it"
# What the doors are built on; it comes with wherry[server].
_OF_THE_DOORS: Final = (
    *("grpc", "grpc_health", "grpc_reflection", "jinja2", "msgspec"),
    *("prometheus_client", "starlette", "uvicorn"),
)


@click.command()
@click.argument("app", metavar="[APP]", required=False)
@with_work
@click.option("--no-server", is_flag=True, help="Open no ports: no gRPC, no HTTP.")
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
    log_config: Path | None,
    allow_unsafe_database: bool,
    no_server: bool,
) -> None:
    """Start an embedded PostgreSQL (unless one is named), migrate it, serve it, run APP's handlers.

    Without APP it keeps the database up for other processes, until Ctrl-C.
    """
    from wherry.app.app import App
    from wherry.doctor.guard import require_safe

    if asked.owns_process:
        logs.keep_standard_streams()
    if app is None and (queues or queue):
        raise click.UsageError("queues are served for an APP: name one, such as shop.tasks:app")
    loaded = App(schema=asked.schema or DEFAULT_SCHEMA) if app is None else load_app(app)
    logs.configure(logs.Wanted(log_format, log_config), verbosity=asked.verbosity)
    place(loaded, asked, otherwise=lambda _: EMBEDDED)
    # Before anything is made there.
    require_safe(loaded.dsn, schema=loaded.schema, allow_unsafe=allow_unsafe_database)
    applied = loaded.migrate()
    out = Output(asked)
    _greet(out, loaded, applied=len(applied), with_worker=app is not None)
    settings = None if no_server else _settings(out, allow_unsafe=allow_unsafe_database)
    if app is None:
        if settings is None:
            out.note(_LAST_WORDS)
            _keep(loaded)
        else:
            run(loaded, settings, ready=_told(out))
        return
    if settings is None:
        out.note(_LAST_WORDS)
    wanted = running.Run(
        queues=served(queues, queue),
        concurrency=concurrency,
        name=None,
        lease_for=DEFAULT_LEASE_FOR,
        shutdown_timeout=DEFAULT_SHUTDOWN_TIMEOUT,
        until_empty=False,
        listen=True,
        allow_unsafe_database=allow_unsafe_database,
        beside=None if settings is None else _serving(loaded, settings, ready=_told(out)),
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


def _settings(out: Output, *, allow_unsafe: bool) -> ServerSettings | None:
    """Return how to serve on this machine, or None if what is needed is not installed."""
    if any(find_spec(name) is None for name in _OF_THE_DOORS):
        out.note("no server: gRPC and HTTP need `pip install 'wherry[server]'`")
        return None
    return replace(ServerSettings(), or_any_port=True, allow_unsafe_database=allow_unsafe)


def _told(out: Output) -> Callable[[Bound], None]:
    def tell(bound: Bound) -> None:
        for usual, now in ((DEFAULT_GRPC_ADDRESS, bound.grpc), (DEFAULT_HTTP_ADDRESS, bound.http)):
            if usual != str(now):
                out.note(f"{usual} is taken, so the server took a free port")
        out.note(f"serving gRPC on {bound.grpc_url}")
        out.note(f"serving HTTP on {bound.http_url}, its verbs on {bound.http_url}/docs")
        out.note(f"the dashboard is on {bound.http_url}/dashboard/")
        out.note(_LAST_WORDS)

    return tell


def _serving(
    app: App, settings: ServerSettings, *, ready: Callable[[Bound], None]
) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Return what opens a server in the worker's loop."""

    @asynccontextmanager
    async def serving() -> AsyncGenerator[None, None]:
        from wherry.server.run import Server

        async with Server(app, settings) as server:
            ready(server.bound)
            yield

    return serving


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
