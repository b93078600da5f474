"""`wherry server`: serve the queue to programs in any language, over gRPC and HTTP."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wherry.cli import logs, running, values
from wherry.cli.asked import Asked, with_allowance, with_database, with_verbosity
from wherry.cli.entry import exit_code
from wherry.cli.opened import EMBEDDED, joined
from wherry.config import (
    DEFAULT_GRPC_ADDRESS,
    DEFAULT_HTTP_ADDRESS,
    DEFAULT_POOL_SIZE,
    DEFAULT_SCHEMA,
    ServerSettings,
)

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.run import Bound

# Tasks come by the thousand and go with their call, in no cycle: looking for cycles after each 700
# objects was a seventh of a busy server's time. Counted in objects that live.
_OBJECTS_BEFORE_A_LOOK = 20_000

_PEM = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--grpc",
    metavar="ADDRESS",
    default=DEFAULT_GRPC_ADDRESS,
    help=f"Listen here for gRPC, or 'off' (default: {DEFAULT_GRPC_ADDRESS}).",
)
@click.option(
    "--http",
    metavar="ADDRESS",
    default=DEFAULT_HTTP_ADDRESS,
    help=f"Listen here for HTTP, or 'off' (default: {DEFAULT_HTTP_ADDRESS}).",
)
@click.option(
    "--auth/--no-auth",
    default=None,
    help="Ask callers for a token, or do not (default: ask if another machine can call).",
)
@click.option(
    "--http-host",
    "http_hosts",
    metavar="NAME",
    multiple=True,
    help="With --no-auth: answer HTTP for this host too, beside localhost; repeatable.",
)
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard at the HTTP address.")
@click.option(
    "--redact",
    metavar="PATH",
    multiple=True,
    help="Show this nowhere on the dashboard, such as payload.password; repeatable.",
)
@click.option("--tls-cert", metavar="FILE", type=_PEM, help="Certificate chain, as PEM.")
@click.option("--tls-key", metavar="FILE", type=_PEM, help="The certificate's key, as PEM.")
@click.option(
    "--tls-client-ca",
    metavar="FILE",
    type=_PEM,
    help="Let in only clients with a certificate signed by this one, as PEM.",
)
@click.option(
    "--pool-size",
    metavar="N",
    type=values.Whole(1, 1000),
    default=DEFAULT_POOL_SIZE,
    help="The most database connections that calls hold at a time, beside four of the server's"
    f" own (default: {DEFAULT_POOL_SIZE}).",
)
@click.option("--no-listen", is_flag=True, help="Poll only, as behind a transaction pooler.")
@with_allowance
@logs.with_logs
@with_database
@with_verbosity
@click.pass_obj
def server(
    asked: Asked,
    /,
    grpc: str,
    http: str,
    auth: bool | None,
    http_hosts: tuple[str, ...],
    no_dashboard: bool,
    redact: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    pool_size: int,
    no_listen: bool,
    allow_unsafe_database: bool,
    log_format: str,
    log_config: Path | None,
) -> None:
    """Serve the queue to programs in any language, until SIGTERM or Ctrl-C.

    An ADDRESS is host:port, or :port for every address of this machine; port 0 takes a free one.
    """
    from wherry.app.app import App
    from wherry.cli.loading import has_dsn

    if asked.owns_process:
        logs.keep_standard_streams()
        gc.set_threshold(_OBJECTS_BEFORE_A_LOOK)
    logs.configure(logs.Wanted(log_format, log_config), verbosity=asked.verbosity)
    app = App(asked.dsn, schema=asked.schema or DEFAULT_SCHEMA, pool_size=pool_size)
    if not has_dsn(app):
        joined(asked)
        app.dsn = EMBEDDED
    settings = replace(
        ServerSettings(),
        grpc_address=None if grpc == "off" else grpc,
        http_address=None if http == "off" else http,
        auth=auth,
        http_hosts=http_hosts,
        dashboard=not no_dashboard,
        redact=redact,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        listen=not no_listen,
        allow_unsafe_database=allow_unsafe_database,
    )
    try:
        run(app, settings)
    except Exception as error:
        if asked.owns_process:
            running.leave(exit_code(error), at_once=False)
        raise
    if asked.owns_process:
        running.leave(0, at_once=False)


def run(
    app: App, settings: ServerSettings, *, ready: Callable[[Bound], object] | None = None
) -> None:
    """Serve in an event loop of its own until a signal comes."""
    from wherry.app.loop import run_in_own_loop
    from wherry.server.run import serve

    run_in_own_loop(lambda: serve(app, settings, ready=ready, signals=True), call="serve")
    app.close()
