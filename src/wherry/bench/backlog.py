"""Backlog: how long a lease takes beside tasks that nobody may have yet, and those that are over.

Two schemas: an empty one, and one that also holds delayed tasks (due in a month), low-priority ones
of the same queue, and finished ones. A lease is taken from each in turn, so that the machine's
moods meet both: over a worker's own connection, which keeps one plan, and over an App's pool,
where PostgreSQL may plan anew. `stale`: nobody has analyzed since the tables were empty, and plans
are of that time; `analyzed`: the same connections after an ANALYZE.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter
from typing import Any

from psycopg import sql

import wherry
from wherry.bench import handlers
from wherry.bench.chart import Bars
from wherry.bench.claims import SCHEMA
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet
from wherry.commands.base import Command
from wherry.commands.leases import CompleteTasks, LeaseTasks
from wherry.config import PoolSettings
from wherry.domain.outcome import Completed
from wherry.transport.connect import BRIEF, NO_WAIT
from wherry.transport.session_blocking import SessionTransport

FULL = SCHEMA
EMPTY = f"{SCHEMA}_empty"
LEASES = 80
SIZES = (100, 1)
CONNECTIONS = ("worker", "pool")
WORKER = "bench of the backlog"
PREDICTION = (
    "leases beside the backlog take at most 1.3 times as long, analyzed or not, over a worker's"
    " connection and an App's"
)
CHART = Bars((("lease p50 ms", "lease, p50, ms"), ("lease p95 ms", "lease, p95, ms")))
OPTIONS = (
    option("--delayed", 200_000, "Tasks that are due in a month", least=0),
    option("--low", 200_000, "Ready tasks of low priority", least=0),
    option("--finished", 400_000, "Tasks that have ended", least=0),
)
# So many a statement: it can be interrupted, and needs no room for all of it at once.
_STEP = 500_000
_FILL = """
insert into {schema}.live (
       id, position, created_at, run_after, max_attempts, priority, state, queue, type, payload
)
select nextval('{text}.task_id'), nextval('{text}.position'), now(),
       now() + case when %s = 'delayed' then interval '30 days' else interval '0' end,
       20, %s, %s, %s, %s, '{{"n": 1}}'
  from generate_series(1, %s)
""".replace("{text}", SCHEMA)
# Into a week of days, as if they had ended day after day.
_FILL_FINISHED = """
insert into {schema}.finished (
       id, token, created_at, run_after, leased_at, finished_at, keep_until, attempts, max_attempts,
       priority, state, queue, type, worker, payload
)
select nextval('{text}.task_id'), 1, now(), now(), now(), now(),
       now() + n * 7 / %s * interval '1 day', 1, 20, 0, 'succeeded', %s, %s, 'bench', '{{"n": 1}}'
  from generate_series(%s::bigint, %s) as n
""".replace("{text}", SCHEMA)
Call = Callable[[Command[Any]], Any]


def fill(place: Place, *, delayed: int, low: int, finished: int) -> None:
    """Fill the full schema, while nobody analyzes it."""
    place.query("select {schema}.make_days()")
    days = place.query(
        "select relname from pg_partition_tree('{schema}.finished') join pg_class on oid = relid"
        " where isleaf"
    )
    for (table,) in (("live",), *days):
        place.connection.execute(
            sql.SQL("alter table {} set (autovacuum_enabled = off)").format(
                sql.Identifier(FULL, table)
            )
        )
    name = handlers.nothing.name
    for state, priority, n in (("delayed", 0, delayed), ("ready", -10, low)):
        for first in range(0, n, _STEP):
            more = min(_STEP, n - first)
            place.query(_FILL, state, priority, state, handlers.QUEUE, name, more)
    for first in range(0, finished, _STEP):
        last = min(first + _STEP, finished) - 1
        place.query(_FILL_FINISHED, finished, handlers.QUEUE, name, first, last)


def connected(stack: ExitStack, dsn: str, schema: str) -> dict[str, Call]:
    """Return what carries a command to *schema*, by each kind of connection of ours."""
    session = SessionTransport(
        dsn, schema=schema, name="wherry bench", settings=PoolSettings(), options=BRIEF | NO_WAIT
    )
    stack.callback(session.close)
    app = stack.enter_context(wherry.App(dsn, schema=schema, pool_size=1))
    return {"worker": session.call, "pool": app.carry}


def timed(place: Place, calls: dict[str, Call], *, size: int) -> dict[str, list[float]]:
    """Enqueue, lease in turns and complete; the milliseconds of each lease, in order of length.

    *calls* are by the name of their schema. Raises BenchmarkFailed unless each task was leased and
    has ended once.
    """
    took: dict[str, list[float]] = {schema: [] for schema in calls}
    ids: dict[str, list[int]] = {schema: [] for schema in calls}
    tasks = [{"type": handlers.nothing.name, "payload": {"n": 1}, "queue": handlers.QUEUE}]
    for schema in calls:
        with wherry.App(place.dsn, schema=schema, pool_size=1) as app:
            for _ in range(LEASES):
                app.enqueue_many(tasks * size)
    lease = LeaseTasks(
        queue=handlers.QUEUE, worker=WORKER, limit=size, types=(handlers.nothing.name,)
    )
    for _ in range(LEASES):
        for schema, call in calls.items():
            began = perf_counter()
            leases = call(lease)
            took[schema].append((perf_counter() - began) * 1000)
            if len(leases) != size or any(each.priority for each in leases):
                raise BenchmarkFailed(f"asked for {size} tasks, leased {len(leases)} others")
            call(CompleteTasks(tuple(Completed(each, None) for each in leases)))
            ids[schema] += [each.id for each in leases]
    for schema, leased in ids.items():
        _must_have_ended_once(place, schema, leased)
    return {schema: sorted(each) for schema, each in took.items()}


def _must_have_ended_once(place: Place, schema: str, leased: list[int]) -> None:
    [[ended]] = place.query(
        "select count(*) from {schema}.finished where id = any(%s) and worker = %s",
        leased,
        WORKER,
        schema=schema,
    )
    if not len(set(leased)) == len(leased) == ended:
        raise BenchmarkFailed(f"lost or doubled: {len(leased)} leased, {ended} have ended")


def _measure(place: Place, sheet: Sheet, calls: dict[str, dict[str, Call]], moment: str) -> None:
    for connection in CONNECTIONS:
        of_each = {schema: each[connection] for schema, each in calls.items()}
        for size in SIZES:
            for schema, took in timed(place, of_each, size=size).items():
                sheet.add(
                    _name(schema, moment, connection, size),
                    **{
                        "lease p25 ms": took[len(took) // 4],
                        "lease p50 ms": took[len(took) // 2],
                        "lease p95 ms": took[len(took) * 95 // 100],
                    },
                )


def measure(place: Place, given: Given) -> Sheet:
    """Fill once, then lease in turns, before and after an ANALYZE."""
    columns = ("lease p25 ms", "lease p50 ms", "lease p95 ms")
    sheet = Sheet(
        "backlog",
        prediction=PREDICTION,
        machine=place.machine(),
        digits=dict.fromkeys(columns, 2),
    )
    place.renew(EMPTY)
    place.renew(FULL)
    with ExitStack() as stack:
        calls = {schema: connected(stack, place.dsn, schema) for schema in (EMPTY, FULL)}
        # Prepared and planned before there is anything, as a worker's are.
        for connection in CONNECTIONS:
            timed(place, {s: each[connection] for s, each in calls.items()}, size=1)
        fill(place, delayed=given.delayed, low=given.low, finished=given.finished)
        for moment in ("stale", "analyzed"):
            for _ in range(given.runs):
                _measure(place, sheet, calls, moment)
            if moment == "stale":
                for table in ("live", "finished"):
                    place.query(f"analyze {{schema}}.{table}")
    for moment in ("stale", "analyzed"):
        for connection in CONNECTIONS:
            for size in SIZES:
                full, empty = (_name(s, moment, connection, size) for s in (FULL, EMPTY))
                sheet.compare(full, empty, "lease p50 ms")
    sheet.say("the ratios are of the time that a lease takes: at most 1.3 is what is wanted")
    return sheet


def _name(schema: str, moment: str, connection: str, size: int) -> str:
    beside = "beside backlog" if schema == FULL else "empty"
    return f"{beside}, {moment}, {connection}, {size}"
