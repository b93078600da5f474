"""What every verb is asked in the same way: the database, the form of the answer, how much to say.

These options stand behind the verb, on those verbs that honour them: one that was taken and ignored
would be worse than one that is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Asked:
    """The answers to those options, for one run of the command line."""

    dsn: str | None = None
    schema: str | None = None
    as_json: bool = False
    # How many -v less how many -q.
    verbosity: int = 0
    # Whether this process is ours alone; else somebody runs the command line inside their own.
    owns_process: bool = False


def with_database(command: F) -> F:
    """Add --dsn and --schema."""
    add_schema = click.option(
        "--schema",
        metavar="NAME",
        expose_value=False,
        callback=_remember,
        help="Schema that holds Wherry's tables (default: wherry, or what the APP names).",
    )
    add_dsn = click.option(
        "--dsn",
        metavar="DSN",
        expose_value=False,
        callback=_remember,
        help="Database, as libpq conninfo or URI, or embedded: (default: $WHERRY_DSN).",
    )
    return add_dsn(add_schema(command))


def with_json(command: F) -> F:
    """Add --json."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Answer with one JSON document on stdout.",
    )(command)


def with_verbosity(command: F) -> F:
    """Add --verbose and --quiet."""
    add_quiet = click.option(
        "-q",
        "--quiet",
        count=True,
        expose_value=False,
        callback=_remember_quiet,
        help="Say less on stderr; twice: only errors.",
    )
    add_verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_remember_verbose,
        help="Say more on stderr, and where an error came from; twice: everything.",
    )
    return add_verbose(add_quiet(command))


def with_allowance(command: F) -> F:
    """Add the option of all that refuse a database that would lose tasks."""
    return click.option(
        "--allow-unsafe-database",
        is_flag=True,
        help="Start also if the database is read-only or would lose tasks, and only warn.",
    )(command)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value == "":
        # An unset variable in a script; the next best database must not be taken for it.
        raise click.BadParameter("it is empty: leave it out or name one", ctx=ctx, param=param)
    if value is not None:
        setattr(ctx.ensure_object(Asked), str(param.name), value)
    return value


def _remember_verbose(ctx: click.Context, _param: click.Parameter, value: int) -> int:
    ctx.ensure_object(Asked).verbosity += value
    return value


def _remember_quiet(ctx: click.Context, _param: click.Parameter, value: int) -> int:
    ctx.ensure_object(Asked).verbosity -= value
    return value
