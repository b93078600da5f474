"""Computes, from the database alone, what the demo did and whether the promises held.

Each promise is a query for whatever broke it: no row is what we want, and a row says what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row
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


@dataclass(frozen=True, slots=True)
class Figures:
    """What the demo did, in numbers."""

    documents: int
    rolled_back: int
    tasks: int
    succeeded: int
    retried: int
    dead: int
    recovered: int
    processed_twice: int
    lost: int
    elapsed_seconds: float
    most_in_a_second: int
    megabytes: float
    compressed_megabytes: float
    lines: int


FIGURES: LiteralString = """
    select (select count(*) from documents) as documents,
           (select count(*) from rolled_back) as rolled_back,
           count(*) as tasks,
           count(*) filter (where state = 'succeeded') as succeeded,
           (select count(distinct task_id)
              from wherry_demo.attempt
              join wherry_demo.tasks as tried on tried.id = attempt.task_id
             where outcome = 'failed'
               and tried.state = 'succeeded') as retried,
           count(*) filter (where state = 'dead') as dead,
           (select count(distinct task_id)
              from wherry_demo.attempt
              join killed on killed.worker = attempt.worker
              join wherry_demo.tasks as again on again.id = attempt.task_id
             where outcome = 'lost'
               and again.finished_at is not null) as recovered,
           (select count(*) - count(distinct document) from results) as processed_twice,
           (select count(*)
              from documents
             where id not in (select document from results)
               and not exists (
                   select from wherry_demo.tasks as kept
                    where kept.key = 'document-' || documents.id
                      and kept.state = 'dead')) as lost,
           extract(epoch from max(finished_at) - min(created_at))::float8 as elapsed_seconds,
           (select count(*)
              from wherry_demo.tasks as ended
             where ended.finished_at is not null
             group by date_trunc('second', ended.finished_at)
             order by count(*) desc
             limit 1) as most_in_a_second,
           (select sum(size_bytes) / 1e6 from results)::float8 as megabytes,
           (select sum(compressed_bytes) / 1e6 from results)::float8 as compressed_megabytes,
           (select sum(lines) from results)::bigint as lines
      from wherry_demo.tasks
"""


def figures(conn: psycopg.Connection[Any]) -> Figures:
    """Return the numbers."""
    with conn.cursor(row_factory=class_row(Figures)) as cursor:
        found = cursor.execute(FIGURES).fetchone()
    assert found is not None
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


def table(found: Figures) -> Table:
    """Lay the numbers out."""
    rows = [
        ("documents", f"{found.documents:,}", f"{found.megabytes:.1f} MB, {found.lines:,} lines"),
        ("rolled back", f"{found.rolled_back:,}", "on purpose; nobody saw their tasks"),
        ("tasks", f"{found.tasks:,}", "one for each document"),
        ("succeeded", f"{found.succeeded:,}", f"{found.compressed_megabytes:.1f} MB compressed"),
        ("retried", f"{found.retried:,}", "failed at first, then succeeded"),
        ("dead", f"{found.dead:,}", "the poison file"),
        ("recovered from the killed worker", f"{found.recovered:,}", "run again by another"),
        ("processed twice", f"{found.processed_twice:,}", ""),
        ("lost", f"{found.lost:,}", ""),
        ("elapsed", f"{found.elapsed_seconds:.1f} s", "from first enqueue to last end"),
        (
            "tasks/s",
            f"{found.tasks / max(found.elapsed_seconds, 0.001):,.0f}",
            f"{found.most_in_a_second:,} in the busiest second",
        ),
    ]
    laid_out = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    laid_out.add_column()
    laid_out.add_column(justify="right", style="bold")
    laid_out.add_column(style="dim")
    for row in rows:
        laid_out.add_row(*row)
    return laid_out


def print_report(conn: psycopg.Connection[Any], console: Console) -> bool:
    """Print the table and every broken promise; return whether all held."""
    console.print()
    console.print(table(figures(conn)))
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
