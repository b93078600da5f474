"""How groups of dead tasks are shown."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wherry.cli.output import Column, Output
from wherry.cli.text import first_line
from wherry.domain.durations import span

if TYPE_CHECKING:
    from wherry.domain.filter import DeadGroups

_GROUPS = (
    Column("fingerprint", whole=True),
    Column("tasks", whole=True, right=True),
    Column("type"),
    Column("queues"),
    Column("last", whole=True),
    Column("newest", whole=True, right=True),
    Column("its error"),
)


def show_groups(out: Output, found: DeadGroups) -> None:
    """Answer with the groups, the largest first."""
    if out.as_json:
        out.json(asdict(found))
        return
    now = datetime.now(UTC)
    rows = [
        (
            group.fingerprint,
            f"{group.tasks:,}",
            group.type,
            ", ".join(group.queues),
            f"{span(now - group.last_at)} ago",
            str(group.sample_id),
            first_line(group.sample_error),
        )
        for group in found.groups
    ]
    if rows:
        out.table(_GROUPS, rows)
    else:
        out.note("no dead tasks")
    if found.capped:
        out.note("there may be more: only the newest were looked at")
