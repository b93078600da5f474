"""`wherry worker`: run the handlers of an App, in one process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wherry.cli import logs, metrics, running, values
from wherry.cli.asked import Asked, with_allowance, with_database, with_verbosity
from wherry.cli.entry import exit_code
from wherry.cli.loading import has_dsn, load_app
from wherry.cli.opened import EMBEDDED, joined
from wherry.config import DEFAULT_CONCURRENCY, DEFAULT_LEASE_FOR, DEFAULT_SHUTDOWN_TIMEOUT
from wherry.domain.names import check_schema

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.addresses import Address

F = TypeVar("F", bound=Callable[..., Any])

# By which a supervisor tells its workers what was given as --dsn.
_DSN_VARIABLE = "WHERRY_SUPERVISED_DSN"
_SLOTS = DEFAULT_CONCURRENCY
_LEASE = f"{DEFAULT_LEASE_FOR.total_seconds():g}s"
_GRACE = f"{DEFAULT_SHUTDOWN_TIMEOUT.total_seconds():g}s"


def with_work(command: F) -> F:
    """Add the options of a worker that `wherry up` has too."""
    made: Any = logs.with_logs(with_allowance(command))
    for option in (
        click.option(
            "--concurrency",
            metavar="N",
            type=values.Whole(1, 10_000),
            default=_SLOTS,
            help=f"Slots: how many tasks at once in a process (default: {_SLOTS}).",
        ),
        click.option(
            "--queue",
            metavar="NAME",
            multiple=True,
            help="Serve this queue, whatever is in its name; repeatable.",
        ),
        click.option(
            "--queues",
            metavar="NAMES",
            help="Serve these queues, parted by commas, or '*' for every one"
            " (default: those of the App's types).",
        ),
    ):
        made = option(made)
    result: F = made
    return result


def served(queues: str | None, queue: tuple[str, ...]) -> list[str] | None:
    """Return the queues that were named, or None."""
    names = [] if queues is None else [name.strip() for name in queues.split(",")]
    return [*names, *queue] or None


@click.command()
@click.argument("app", metavar="APP")
@with_work
@click.option(
    "--processes",
    metavar="N",
    type=values.Whole(1, 1000),
    default=1,
    help="So many worker processes under a supervisor, each with its own slots (default: 1).",
)
@metrics.with_metrics
@click.option("--name", metavar="NAME", help="Name in listings and history (default: host-pid).")
@click.option(
    "--lease-for",
    metavar="DURATION",
    type=values.duration,
    default=_LEASE,
    help=f"How long a lost worker's tasks wait for another (default: {_LEASE}).",
)
@click.option(
    "--shutdown-timeout",
    metavar="DURATION",
    type=values.duration,
    default=_GRACE,
    help=f"How long handlers may go on after SIGTERM (default: {_GRACE}).",
)
@click.option("--no-listen", is_flag=True, help="Poll only, as behind a transaction pooler.")
@click.option(
    "--server",
    metavar="ADDRESS",
    help="Work through this server, such as grpc://host:50051, or grpcs:// for TLS, instead of"
    " with a database; its token is read from $WHERRY_TOKEN.",
)
@click.option("--until-empty", is_flag=True, help="End as soon as nothing is due.")
@click.option("--supervised-by", type=int, hidden=True, help="The supervisor's pipe.")
@with_database
@with_verbosity
@click.pass_obj
def worker(
    asked: Asked,
    /,
    app: str,
    queues: str | None,
    queue: tuple[str, ...],
    processes: int,
    supervised_by: int | None,
    metrics_at: Address | None,
    metrics_to: int | None,
    log_format: str,
    log_config: Path | None,
    no_listen: bool,
    allow_unsafe_database: bool,
    concurrency: int,
    name: str | None,
    lease_for: timedelta,
    shutdown_timeout: timedelta,
    server: str | None,
    until_empty: bool,
) -> None:
    """Run the handlers of APP, such as shop.tasks:app, until SIGTERM or Ctrl-C."""
    if server is not None:
        asked.dsn = _address(
            server, asked, no_listen=no_listen, allow_unsafe_database=allow_unsafe_database
        )
    wanted_logs = logs.Wanted(log_format, log_config)
    wanted = running.Run(
        queues=served(queues, queue),
        concurrency=concurrency,
        name=name,
        lease_for=lease_for,
        shutdown_timeout=shutdown_timeout,
        until_empty=until_empty,
        listen=not no_listen,
        allow_unsafe_database=allow_unsafe_database,
    )
    if supervised_by is not None:
        asked.dsn = os.environ.pop(_DSN_VARIABLE, asked.dsn)
        running.stop_with(supervised_by)
    if asked.owns_process:
        logs.keep_standard_streams()
    if processes > 1:
        import asyncio

        from wherry.cli.supervisor import Supervisor

        logs.configure(wanted_logs, verbosity=asked.verbosity, with_pid=True)
        arguments = _for_one(asked, app, wanted, wanted_logs=wanted_logs)
        told = metrics.Told(wanted=processes)
        supervisor = Supervisor(
            arguments,
            wanted,
            processes=processes,
            # Not among the arguments, which every user of the machine can read.
            environment={} if asked.dsn is None else {_DSN_VARIABLE: asked.dsn},
            told=None if metrics_at is None else told,
        )
        with metrics.of_supervisor(told, metrics_at):
            code = asyncio.run(supervisor.run())
        click.get_current_context().exit(code)
    loaded = load_app(app)
    supervised = supervised_by is not None
    logs.configure(wanted_logs, verbosity=asked.verbosity, with_pid=supervised)
    place(loaded, asked, otherwise=joining)
    with metrics.of_worker(loaded, metrics_at, tell=metrics_to):
        finish(asked, loaded, wanted)


def joining(asked: Asked) -> str:
    """Return the DSN that joins, and holds, the embedded server that is running."""
    joined(asked)
    return EMBEDDED


def place(app: App, asked: Asked, *, otherwise: Callable[[Asked], str]) -> None:
    """Give the App the schema and database asked for; *otherwise* names a database if none is."""
    if asked.schema is not None:
        app.schema = check_schema(asked.schema)
    if asked.dsn is not None:
        app.dsn = asked.dsn
    if not has_dsn(app):
        app.dsn = otherwise(asked)


def finish(asked: Asked, app: App, wanted: running.Run) -> None:
    """Run a worker to its end, and end with its exit code."""
    try:
        summary = running.run(app, wanted)
    except Exception as error:
        if asked.owns_process:
            running.leave(exit_code(error), at_once=False)
        raise
    if asked.owns_process:
        running.leave(summary.exit_code, at_once=bool(summary.abandoned))
    click.get_current_context().exit(summary.exit_code)


def _address(server: str, asked: Asked, *, no_listen: bool, allow_unsafe_database: bool) -> str:
    """Return the server's address, checked. Raises UsageError for options it leaves no room for."""
    from wherry.dsn import is_server, read_server

    for given, option in (
        (asked.dsn is not None, "--dsn"),
        (asked.schema is not None, "--schema"),
        (no_listen, "--no-listen"),
        (allow_unsafe_database, "--allow-unsafe-database"),
    ):
        if given:
            raise click.UsageError(f"{option} is about a database, which --server has: give one")
    if not is_server(server):
        raise click.BadParameter(
            "write grpc://host:port, or grpcs://host:port for TLS", param_hint="--server"
        )
    read_server(server)
    return server


def _for_one(asked: Asked, app: str, wanted: running.Run, *, wanted_logs: logs.Wanted) -> list[str]:
    """Return the arguments of one worker under the supervisor, all but its name."""
    arguments = [
        *("--concurrency", str(wanted.concurrency)),
        *("--lease-for", f"{wanted.lease_for.total_seconds():f}"),
        *("--shutdown-timeout", f"{wanted.shutdown_timeout.total_seconds():f}"),
        *wanted_logs.arguments(),
        *(["-v" if asked.verbosity > 0 else "-q"] * abs(asked.verbosity)),
    ]
    for queue in wanted.queues or ():
        arguments += ("--queue", queue)
    arguments += ["--until-empty"] if wanted.until_empty else []
    arguments += [] if wanted.listen else ["--no-listen"]
    arguments += ["--allow-unsafe-database"] if wanted.allow_unsafe_database else []
    arguments += [] if asked.schema is None else ["--schema", asked.schema]
    return [*arguments, "--", app]
