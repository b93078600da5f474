"""The anchors: what one connection gets out of this very server with bare tables of its own.

A product's tasks a second mean little without the machine; quoted as a ratio of these, measured in
the same run, they can be compared. All with synchronous_commit on, a payload of some 90 bytes:

    lease    lease 1000 (skip locked, in order), commit; delete them and insert them into history in
             one statement, commit. What a drain can be at best.
    single   the same with one task at a time
    row      COPY 1000, update them by id, delete them by id: three commits; enqueue included
    copy     COPY 1000 rows a transaction
    insert   one-row insert transactions
    bulk     insert 1000 rows a transaction from one JSON parameter
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, LiteralString

import psycopg

from wherry.bench.chart import Bars
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

BATCH = 1000
TASKS = 50_000
PREDICTION = (
    "one connection, 2 cores: lease 60,000 to 100,000 tasks/s, single 1,500 to 3,000, row as much"
    " as lease, copy 250,000 to 400,000, insert 5,000 to 8,000"
)
_MAKE = """
create schema wherry_bench_limit;
set search_path = wherry_bench_limit;
create table task (
    id bigint generated always as identity primary key, queue text not null, state smallint not null default 0,
    token bigint not null default 0, payload text not null
) with (fillfactor = 70);
create table live (
    id bigint generated always as identity primary key, queue text not null, priority smallint not null default 0,
    position bigint generated always as identity, state smallint not null default 0, token bigint not null default 0,
    lease_id uuid, payload text not null
) with (fillfactor = 70);
create index live_ready on live (queue, priority desc, position) where state = 0;
create table history (
    id bigint primary key, queue text not null, token bigint not null, finished_at timestamptz not null,
    lease_id uuid, payload text not null
);
"""  # noqa: E501
_LEASE = """
with due as materialized (
    select id from live where queue = 'default' and state = 0
     order by priority desc, position limit %s for update skip locked
)
update live set state = 1, token = token + 1, lease_id = gen_random_uuid()
 where id = any (array(select id from due))
returning id, token, payload
"""
_FINISH = """
with gone as (
    delete from live using unnest(%s::bigint[], %s::bigint[]) as asked (id, token)
     where live.id = asked.id and live.token = asked.token and state = 1
    returning live.id, queue, live.token, lease_id, payload
)
insert into history (id, queue, token, finished_at, lease_id, payload)
select id, queue, token, now(), lease_id, payload from gone
"""
_BULK = """
insert into task (queue, payload)
select 'default', t.value::text from json_array_elements(%s::json) as t
"""
_COPY_TASK = "copy task (queue, payload) from stdin"
_COPY_LIVE = "copy live (queue, payload) from stdin"
Anchor = Callable[[psycopg.Cursor[Any], int], int]

# Made before any clock runs: about 90 bytes each.
PAYLOADS = [
    json.dumps({"user_id": i, "email": f"user{i}@example.com", "template": "welcome", "n": i})
    for i in range(BATCH)
]
_LINES = "".join(f"default\t{text}\n" for text in PAYLOADS)
CHART = Bars(
    (
        ("tasks/s", "tasks a second"),
        ("client us", "client, us a task"),
        ("server us", "server, us a task"),
        ("WAL bytes", "WAL, bytes a task"),
    ),
    logarithmic=("tasks/s", "client us", "server us"),
)
OPTIONS = (option("--tasks", TASKS, "Tasks a run"),)


def _copy(cursor: psycopg.Cursor[Any], into: LiteralString) -> None:
    with cursor.copy(into) as copy:
        copy.write(_LINES)


def _drain(cursor: psycopg.Cursor[Any], tasks: int, batch: int) -> int:
    done = 0
    while done < tasks:
        leased = cursor.execute(_LEASE, (batch,)).fetchall()
        ids, tokens, _ = zip(*leased, strict=True)
        cursor.execute(_FINISH, (list(ids), list(tokens)))
        assert cursor.rowcount == len(leased)
        done += len(leased)
    return done


def _lease(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    return _drain(cursor, tasks, BATCH)


def _single(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    return _drain(cursor, max(1, tasks // 50), 1)


def _row(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    for _ in range(0, tasks, BATCH):
        _copy(cursor, _COPY_TASK)
        [low] = cursor.execute("select max(id) - %s from task", (BATCH - 1,)).fetchone() or [0]
        ids = list(range(low, low + BATCH))
        cursor.execute(
            "update task set state = 1, token = %s where id = any (%s) returning id, payload",
            (low, ids),
        )
        cursor.fetchall()
        cursor.execute("delete from task where id = any (%s) and token = %s", (ids, low))
        assert cursor.rowcount == BATCH
    return tasks


def _copies(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    for _ in range(0, tasks, BATCH):
        _copy(cursor, _COPY_TASK)
    return tasks


def _insert(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    inserts = max(1, tasks // 20)
    for i in range(inserts):
        payload = PAYLOADS[i % BATCH]
        cursor.execute("insert into task (queue, payload) values ('default', %s)", (payload,))
    return inserts


def _bulk(cursor: psycopg.Cursor[Any], tasks: int) -> int:
    for _ in range(0, tasks, BATCH):
        cursor.execute(_BULK, (f"[{','.join(PAYLOADS)}]",))
    return tasks


ANCHORS: dict[str, Anchor] = {
    "lease": _lease,
    "single": _single,
    "row": _row,
    "copy": _copies,
    "insert": _insert,
    "bulk": _bulk,
}


def take(place: Place, sheet: Sheet, names: list[str], *, tasks: int) -> None:
    """Measure some anchors once, each in tables made anew, and add them as `limit NAME`."""
    for name in names:
        sheet.add(f"limit {name}", **once(place, name, tasks=tasks))


def once(place: Place, name: str, *, tasks: int) -> dict[str, float]:
    """Measure one anchor; tasks a second, and CPU per task in us at both ends."""
    place.claims.clear("wherry_bench_limit")
    with psycopg.connect(place.dsn, autocommit=True, prepare_threshold=1) as connection:
        connection.execute(_MAKE, prepare=False)
        # Its statistics know nothing yet: without this a lease sorts all that is ready.
        for scan in ("seqscan", "bitmapscan", "sort"):
            connection.execute(f"set enable_{scan} = off", prepare=False)
        cursor = connection.cursor(binary=True)
        if name in ("lease", "single"):
            for _ in range(0, tasks + BATCH, BATCH):
                _copy(cursor, _COPY_LIVE)
            # Statements and plans are warm before the clock runs.
            _drain(cursor, BATCH, BATCH)
        else:
            ANCHORS[name](cursor, BATCH)
        place.flush(connection)
        before, cpu, began = place.read(), process_time(), perf_counter()
        done = ANCHORS[name](cursor, tasks)
        seconds = perf_counter() - began
        cpu = process_time() - cpu
        place.flush(connection)
        spent = place.spent(before)
        connection.execute("drop schema wherry_bench_limit cascade", prepare=False)
    return {"tasks/s": done / seconds, "client us": cpu / done * 1e6, **spent.each(done)}


def measure(place: Place, given: Given) -> Sheet:
    """Measure all anchors, interleaved."""
    sheet = Sheet(
        "limit",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={"server us": 1, "client us": 1},
    )
    for _ in range(given.runs):
        take(place, sheet, list(ANCHORS), tasks=given.tasks)
    return sheet
