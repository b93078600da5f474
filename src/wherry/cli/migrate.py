"""`wherry migrate`: bring the schema up to date, or tell how it stands."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import database
from wherry.cli.output import Column, Output, write_out
from wherry.cli.text import moment
from wherry.config import DEFAULT_SCHEMA
from wherry.domain.counting import count
from wherry.domain.durations import span
from wherry.domain.names import check_schema

if TYPE_CHECKING:
    from wherry.migrations import Applied

_KINDS = ("worker", "server", "enqueuer", "reader")
# A comma parts two grants only where a kind follows: a role's name may hold commas itself.
_NEXT_GRANT = re.compile(rf",(?=(?:{'|'.join(_KINDS)})=)")
_STATUS = (
    Column("version", whole=True, right=True),
    Column("name"),
    Column("state", whole=True),
    Column("applied", whole=True),
    Column("by"),
)


@click.command()
@click.option("--status", is_flag=True, help="Tell what is applied and what is pending.")
@click.option("--dry-run", is_flag=True, help="Apply it in a transaction that is rolled back.")
@click.option("--sql", "as_script", is_flag=True, help="Print it as a script for psql.")
@click.option(
    "--after",
    metavar="VERSION",
    type=values.Whole(0),
    help="With --sql: only what comes after this version.",
)
@click.option(
    "--grants",
    metavar="KIND=ROLE",
    multiple=True,
    help="Print the GRANT statements for roles, each a worker, a server, an enqueuer or a"
    " reader: worker=a,reader=b; repeatable.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    type=values.duration,
    default="60s",
    help="How long to wait for another migrator or for a lock (default: 60s).",
)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def migrate(
    asked: Asked,
    /,
    status: bool,
    dry_run: bool,
    as_script: bool,
    after: int | None,
    grants: tuple[str, ...],
    wait: timedelta,
) -> None:
    """Apply the migrations that the database lacks."""
    if sum((status, dry_run, as_script, bool(grants))) > 1:
        raise click.UsageError("--status, --dry-run, --sql and --grants exclude one another")
    if after is not None and not as_script:
        raise click.UsageError("--after belongs to --sql")
    if asked.as_json and (as_script or grants):
        raise click.UsageError("what --sql and --grants print is SQL: leave --json out")
    schema = check_schema(asked.schema or DEFAULT_SCHEMA)
    out = Output(asked)
    if as_script:
        from wherry.migrations import sql

        write_out(sql(schema=schema, after=after or 0))
    elif grants:
        _print_grants(schema, grants)
    elif status:
        _show_status(out, asked, schema)
    else:
        _apply(out, asked, schema, dry_run=dry_run, wait=wait)


def _apply(out: Output, asked: Asked, schema: str, *, dry_run: bool, wait: timedelta) -> None:
    from wherry import migrations

    go = migrations.dry_run if dry_run else migrations.migrate
    with database(asked) as dsn:
        applied = go(dsn, schema=schema, wait_for=wait)
        lacking = [] if dry_run else migrations.lacking(dsn, schema=schema)
    if out.as_json:
        out.json(
            {
                "schema": schema,
                "dry_run": dry_run,
                "applied": [
                    {
                        "version": each.version,
                        "name": each.name,
                        "took_seconds": each.took.total_seconds(),
                        "tried": each.tried,
                    }
                    for each in applied
                ],
                "lacking_rights": [asdict(each) for each in lacking],
            }
        )
        return
    for each in applied:
        out.line(_line(each, dry_run=dry_run))
    if not applied:
        out.line("nothing to apply: the schema is up to date")
    elif dry_run:
        out.line(f"{count(len(applied), 'migration')} would be applied; nothing was changed")
    if lacking:
        roles = ", ".join(f"{each.role} ({each.kind})" for each in lacking)
        asked_for = " ".join(
            f"--grants {shlex.quote(f'{each.kind}={each.role}')}" for each in lacking
        )
        of = "" if schema == DEFAULT_SCHEMA else f"--schema {shlex.quote(schema)} "
        out.note(
            f"these roles lack rights that this version needs: {roles}. Run as the owner what this"
            f" prints: wherry migrate {of}{asked_for}"
        )


def _line(applied: Applied, *, dry_run: bool) -> str:
    if not applied.tried:
        return f"{applied.name} was not tried: it cannot run in a transaction"
    return f"{'would apply' if dry_run else 'applied'} {applied.name} ({span(applied.took)})"


def _show_status(out: Output, asked: Asked, schema: str) -> None:
    from wherry.migrations import status

    with database(asked) as dsn:
        states = status(dsn, schema=schema)
    if out.as_json:
        out.json({"schema": schema, "migrations": [asdict(state) for state in states]})
        return
    out.table(
        _STATUS,
        [
            (
                str(state.version),
                state.name,
                state.state,
                moment(state.applied_at),
                state.applied_by or "",
            )
            for state in states
        ],
    )
    pending = sum(state.state == "pending" for state in states)
    if pending:
        out.note(f"{count(pending, 'migration')} pending: run wherry migrate")


def _print_grants(schema: str, asked: tuple[str, ...]) -> None:
    from wherry.migrations import grants

    roles: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for text in asked:
        for grant in _NEXT_GRANT.split(text):
            kind, _, role = grant.partition("=")
            if kind not in roles or not role:
                known = ", ".join(f"{each}=ROLE" for each in _KINDS)
                raise click.BadParameter(f"{grant!r}: write {known}", param_hint="--grants")
            roles[kind].append(role)
    write_out(grants(schema=schema, **roles))
