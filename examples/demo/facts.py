"""What the demo asks its database while it runs; report.py asks the rest when it has ended.

All of it is plain SQL on the view `wherry_demo.tasks`, which anybody may read like this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the work is."""

    loaded: int  # files dealt with: documents, and those that were rolled back
    tasks: int
    queued: int
    leased: int
    finished: int


def count(conn: psycopg.Connection[Any]) -> Counts:
    """Count what there is now."""
    with conn.cursor(row_factory=class_row(Counts)) as cursor:
        found = cursor.execute("""
            select (select count(*) from documents) + (select count(*) from rolled_back) as loaded,
                   count(*) as tasks,
                   count(*) filter (where state = 'queued') as queued,
                   count(*) filter (where state = 'leased') as leased,
                   count(*) filter (where finished_at is not null) as finished
              from wherry_demo.tasks
        """).fetchone()
    assert found is not None
    return found


def busy_worker(conn: psycopg.Connection[Any]) -> str | None:
    """Return a worker that has only just begun a slow file, and so holds it a while, or None.

    Of several it is the one with the most tasks in its hands.
    """
    found = conn.execute("""
        select lease_owner
          from wherry_demo.tasks
         where state = 'leased'
         group by lease_owner
        having bool_or(payload ->> 'trouble' = 'slow'
                       and started_at > now() - interval '0.5 seconds')
         order by count(*) desc
         limit 1
    """).fetchone()
    return None if found is None else found[0]


def leases_of(conn: psycopg.Connection[Any], worker: str) -> int:
    """Count the tasks that a worker holds."""
    found = conn.execute(
        "select count(*) from wherry_demo.tasks where state = 'leased' and lease_owner = %s",
        [worker],
    ).fetchone()
    assert found is not None
    return int(found[0])
