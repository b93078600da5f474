"""Computes, from the database alone, what the demo did and whether the promises held.

Each promise is a query for whatever broke it: no row is what we want, and a row says what is wrong.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from rich.console import Console
from rich.table import Table

SHOWN_AT_MOST = 5

PROMISES: dict[str, LiteralString] = {
    "every document has one task, enqueued in the same transaction": """
        select documents.id as document, documents.path, count(tasks.id) as tasks
          from documents
          left join wherry_demo.tasks on tasks.key = 'document-' || documents.id
         group by documents.id
        having count(tasks.id) <> 1
    """,
    "what was rolled back was never there": """
        select tasks.id as task, tasks.payload
          from wherry_demo.tasks
         where not exists (select from documents where 'document-' || documents.id = tasks.key)
            or tasks.payload ->> 'path' in (select path from rolled_back)
    """,
    "every task has ended": """
        select id as task, state, last_error
          from wherry_demo.tasks
         where finished_at is null
    """,
    "every document was processed once, except the poison": """
        select documents.id as document, documents.path, count(results.document) as results
          from documents
          left join results on results.document = documents.id
         group by documents.id
        having count(results.document) <> case documents.trouble when 'poison' then 0 else 1 end
    """,
    "a task has succeeded if and only if its result is there": """
        select tasks.id as task, tasks.state, results.document as result
          from wherry_demo.tasks
          full join results on 'document-' || results.document = tasks.key
         where (tasks.state is not distinct from 'succeeded') <> (results.document is not null)
    """,
    "what failed at first was tried again and succeeded": """
        select tasks.id as task, tasks.state, tasks.attempts, documents.trouble
          from documents
          join wherry_demo.tasks on tasks.key = 'document-' || documents.id
         where documents.trouble like 'fails%'
           and (tasks.state <> 'succeeded'
                or tasks.attempts <= case documents.trouble when 'fails once' then 1 else 2 end)
    """,
    "the poison is dead after all its attempts, and nothing else is": """
        select tasks.id as task, documents.path, tasks.state, tasks.attempts, tasks.last_error
          from documents
          join wherry_demo.tasks on tasks.key = 'document-' || documents.id
         where (documents.trouble = 'poison' or tasks.state <> 'succeeded')
           and (documents.trouble, tasks.state, tasks.attempts)
               <> ('poison', 'dead', tasks.max_attempts)
    """,
    "a worker was killed while it held tasks": """
        select 'the worker that was killed held nothing, or none was killed' as trouble
         where not exists (
               select from killed
                 join wherry_demo.attempt on attempt.worker = killed.worker
                where attempt.outcome = 'lost'
         )
    """,
    "what the killed worker held was finished by another": """
        select tasks.id as task, tasks.state, tasks.lease_owner as worker
          from killed
          join wherry_demo.attempt on attempt.worker = killed.worker and attempt.outcome = 'lost'
          join wherry_demo.tasks on tasks.id = attempt.task_id
         where tasks.finished_at is null
            or tasks.lease_owner = killed.worker
    """,
}


# The rows of the table, in its order: each a query for one number.
FIGURES: dict[str, LiteralString] = {
    "documents": "select count(*) from documents",
    "rolled back": "select count(*) from rolled_back",
    "tasks": "select count(*) from wherry_demo.tasks",
    "succeeded": "select count(*) from wherry_demo.tasks where state = 'succeeded'",
    "retried": """
        select count(distinct tasks.id)
          from wherry_demo.tasks
          join wherry_demo.attempt on attempt.task_id = tasks.id
         where attempt.outcome = 'failed'
           and tasks.state = 'succeeded'
    """,
    "dead": "select count(*) from wherry_demo.tasks where state = 'dead'",
    "recovered from the killed worker": """
        select count(distinct tasks.id)
          from killed
          join wherry_demo.attempt on attempt.worker = killed.worker and attempt.outcome = 'lost'
          join wherry_demo.tasks on tasks.id = attempt.task_id
         where tasks.finished_at is not null
    """,
    "processed twice": "select count(*) - count(distinct document) from results",
    "lost": """
        select count(*)
          from documents
          left join wherry_demo.tasks on tasks.key = 'document-' || documents.id
         where documents.id not in (select document from results)
           and tasks.state is distinct from 'dead'
    """,
    "elapsed": """
        select extract(epoch from max(finished_at) - min(created_at))
          from wherry_demo.tasks
    """,
    "tasks/s": """
        select count(finished_at) / extract(epoch from max(finished_at) - min(created_at))
          from wherry_demo.tasks
    """,
}
NOTES = {
    "rolled back": "on purpose; nobody saw their tasks",
    "retried": "failed at first, then succeeded",
    "dead": "the poison file",
    "recovered from the killed worker": "run again by another",
    "elapsed": "seconds, first enqueue to last end",
    "tasks/s": "the wait for the lost leases included",
}

WORK: LiteralString = """
    select sum(size_bytes) / 1e6, sum(lines), sum(compressed_bytes) / 1e6
      from results
    having count(*) > 0
"""


def figures(conn: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the numbers, as they are shown."""
    found: dict[str, str] = {}
    for name, query in FIGURES.items():
        row = conn.execute(query).fetchone()
        number = None if row is None else row[0]
        # What has not ended has no length: the seconds are null then.
        found[name] = "?" if number is None else f"{number:,.{1 if name == 'elapsed' else 0}f}"
    return found


def broken_promises(conn: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Return each promise that did not hold, with rows that show it."""
    broken: dict[str, list[str]] = {}
    for promise, query in PROMISES.items():
        cursor = conn.execute(query)
        rows = cursor.fetchmany(SHOWN_AT_MOST)
        if rows:
            names = [column.name for column in cursor.description or ()]
            broken[promise] = [
                ", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True))
                for row in rows
            ]
    return broken


def dead_task(conn: psycopg.Connection[Any]) -> int | None:
    """Return the id of the task that is dead."""
    found = conn.execute("select id from wherry_demo.tasks where state = 'dead'").fetchone()
    return None if found is None else int(found[0])


def print_figures(conn: psycopg.Connection[Any], console: Console) -> None:
    """Print the table, and how much work it was."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    for name, number in figures(conn).items():
        table.add_row(name, number, NOTES.get(name, ""))
    console.print(table)
    for megabytes, lines, compressed in conn.execute(WORK):
        console.print(
            f"\n{megabytes:.1f} MB with {lines:,} lines hashed, compressed to {compressed:.1f} MB"
        )


def print_report(conn: psycopg.Connection[Any], console: Console) -> bool:
    """Print the table and every broken promise; return whether all held."""
    console.print()
    print_figures(conn, console)
    console.print()
    broken = broken_promises(conn)
    for promise, rows in broken.items():
        console.print(f"BROKEN: {promise}", style="bold red", markup=False)
        for row in rows:
            console.print(f"    {row}", markup=False, soft_wrap=True)
    if not broken:
        console.print(f"All {len(PROMISES)} promises held, each checked by a query:")
        for promise in PROMISES:
            console.print(f"  {promise}", style="green", markup=False)
    return not broken
