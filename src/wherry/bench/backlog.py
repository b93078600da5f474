"""Backlog: how long a lease takes beside tasks that nobody may have yet, and those that are over.

Two schemas: an empty one, and one that also holds delayed tasks (due in a month), low-priority ones
of the same queue, and finished ones. One lease is taken from each in turn, so that the machine's
moods meet both; from connections whose plans were made on the empty tables.
"""

from __future__ import annotations

import statistics
from time import perf_counter

import wherry
from wherry.bench import handlers
from wherry.bench.claims import SCHEMA
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

FULL = SCHEMA
EMPTY = f"{SCHEMA}_empty"
LEASES = 80
PREDICTION = "leases beside the backlog take at most 1.3 times as long, analyzed or not"
_FILL = """
insert into {schema}.live (
       id, position, created_at, run_after, max_attempts, priority, state, queue, type, payload
)
select nextval('{text}.task_id'), nextval('{text}.position'), now(),
       now() + case when %s = 'delayed' then interval '30 days' else interval '0' end,
       20, %s, %s, %s, %s, '{{"n": 1}}'
  from generate_series(1, %s)
""".replace("{text}", SCHEMA)
_FILL_FINISHED = """
insert into {schema}.finished (
       id, token, created_at, run_after, leased_at, finished_at, keep_until, attempts, max_attempts,
       priority, state, queue, type, worker, payload
)
select nextval('{text}.task_id'), 1, now(), now(), now(), now(), now() + n %% 7 * interval '1 day', 1, 20, 0,
       'succeeded', %s, %s, 'bench', '{{"n": 1}}'
  from generate_series(1, %s) as n
""".replace("{text}", SCHEMA)  # noqa: E501
OPTIONS = (
    option("--delayed", 200_000, "Tasks that are due in a month"),
    option("--low", 200_000, "Ready tasks of low priority"),
    option("--finished", 400_000, "Tasks that have ended"),
)


def _timed(apps: dict[str, wherry.App], *, size: int) -> dict[str, list[float]]:
    """Enqueue, lease in turns and complete; the milliseconds of each lease, in order of length."""
    took: dict[str, list[float]] = {name: [] for name in apps}
    calls = [{"type": handlers.nothing.name, "payload": {"n": 1}, "queue": handlers.QUEUE}]
    for app in apps.values():
        for _ in range(LEASES):
            app.enqueue_many(calls * size)
    for _ in range(LEASES):
        for name, app in apps.items():
            began = perf_counter()
            leases = app.lease(worker="bench", queues=[handlers.QUEUE], max_tasks=size)
            took[name].append((perf_counter() - began) * 1000)
            if len(leases) != size or any(lease.priority for lease in leases):
                raise BenchmarkFailed(f"asked for {size} tasks, leased {leases}")
            app.complete(leases[0])
    return {name: sorted(each) for name, each in took.items()}


def _measure(sheet: Sheet, apps: dict[str, wherry.App], moment: str) -> None:
    for size in (100, 1):
        for name, took in _timed(apps, size=size).items():
            sheet.add(
                f"{name}, {moment}, {size}",
                **{
                    "lease p25 ms": took[len(took) // 4],
                    "lease p50 ms": statistics.median(took),
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
    apps = {
        "empty": wherry.App(place.dsn, schema=EMPTY, pool_size=1),
        "backlog": wherry.App(place.dsn, schema=FULL, pool_size=1),
    }
    # Prepared and planned before there is anything, as a worker's are.
    _timed(apps, size=1)
    for table in ("live", "finished_default"):
        place.query(f"alter table {{schema}}.{table} set (autovacuum_enabled = off)")
    name = handlers.nothing.name
    for state, priority, n in (("delayed", 0, given.delayed), ("ready", -10, given.low)):
        place.query(_FILL, state, priority, state, handlers.QUEUE, name, n)
    place.query(_FILL_FINISHED, handlers.QUEUE, name, given.finished)
    for run in range(given.runs):
        _measure(sheet, apps, "stale")
        if run == given.runs - 1:
            place.query("analyze {schema}.live")
            for app in apps.values():
                app.close()
            for _ in range(given.runs):
                _measure(sheet, apps, "analyzed")
    for app in apps.values():
        app.close()
    for moment in ("stale", "analyzed"):
        for size in (100, 1):
            ratio = sheet.ratio(
                f"backlog, {moment}, {size}", f"empty, {moment}, {size}", "lease p50 ms"
            )
            sheet.say(f"{moment}, leases of {size}: {ratio:.2f} times as long beside the backlog")
    return sheet
