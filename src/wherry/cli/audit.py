"""`wherry audit`: look up who changed what by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Column, Output
from wherry.cli.text import moment

if TYPE_CHECKING:
    from wherry.commands.audit import AuditEntry

_AUDIT = (
    Column("at", whole=True),
    Column("actor"),
    Column("action", whole=True),
    Column("count", whole=True, right=True),
    Column("target"),
    Column("reason"),
)
_IDS_SHOWN = 5


@click.group()
def audit() -> None:
    """Look up who changed what by hand."""


@audit.command(name="list")
@click.option("--action", metavar="NAME", help="Only this, such as cancel_tasks.")
@click.option("--actor", metavar="NAME", help="Only what this one did, as a listing names it.")
@click.option(
    "--limit",
    metavar="N",
    type=values.Whole(1, 1000),
    default=100,
    help="At most so many, up to 1000 (default: 100).",
)
@click.option(
    "--after",
    metavar="ID",
    type=values.TASK_ID,
    help="Go on after this row, the last of the page before.",
)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_audit(
    asked: Asked,
    /,
    action: str | None,
    actor: str | None,
    limit: int,
    after: int | None,
) -> None:
    """List what was changed, newest first: by whom, what, how many, and why."""
    from wherry.commands.audit import ListAudit

    # One more than asked for tells whether there is a next page.
    command = ListAudit(limit=limit + 1, after=after, action=action, actor=actor)
    with opened(asked) as app:
        found = app.carry(command, call="list_audit")
    page, more = found[:limit], len(found) > limit
    out = Output(asked)
    next_after = page[-1].id if more else None
    if out.as_json:
        out.json({"audit": [asdict(entry) for entry in page], "after": next_after})
        return
    if not page:
        out.note("the audit is empty" if after is None else "no more rows")
        return
    out.table(_AUDIT, [_row(entry) for entry in page])
    if next_after is not None:
        out.note(f"there are more: --after {next_after}")


def _row(entry: AuditEntry) -> tuple[str, ...]:
    actor = f"{entry.actor} from {entry.peer}" if entry.peer else entry.actor
    count = f"{entry.count:,}"
    return (moment(entry.at), actor, entry.action, count, _target(entry), entry.reason or "")


def _target(entry: AuditEntry) -> str:
    """Return the target in brief; with --json it is whole."""
    parts: list[str] = []
    for name, value in entry.target.items():
        if value is not None:
            parts.append(f"{name}={_brief(value)}")
    return " ".join(parts)


def _brief(value: Any) -> str:
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        shown = ",".join(str(item) for item in items[:_IDS_SHOWN])
        more = len(items) - _IDS_SHOWN
        return shown + (f",… ({more:,} more)" if more > 0 else "")
    return value if isinstance(value, str) else json.dumps(value)
