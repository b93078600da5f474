"""Enqueue: one by one, in batches and in transactions, by 1 to 16 committing processes.

Each has a bare twin, measured right beside it by as many processes: one-row inserts, COPY, or the
same transaction with a bare insert in place of the enqueue. What counts is the ratio.

Wake-ups, with the most committers: `silent` never notifies, `one` is the default while nobody
waits, `waited` while somebody always waits (so each commit notifies, which a real worker would soon
end), `worked` beside workers that take what comes. Beside `polled`, which is held against it,
nobody notifies either: workers that listen to nothing look a hundred times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

from wherry.bench import handlers, limit, worker
from wherry.bench.chart import Bars
from wherry.bench.children import Children, Ready
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

BATCH = 1000
PREDICTION = (
    "one by one 0.8 of bare one-row transactions, batches 0.5 of COPY, a transaction with an"
    " enqueue 0.8 of one with a bare insert; nobody waiting costs nothing, 16 committers beside a"
    " worker at least 0.9 of silent"
)
# Against what each is to be held.
TWINS = {"one": "bare one", "many": "bare copy", "tx": "bare tx"}
WAKES: Mapping[str, Mapping[str, Any]] = {
    "silent": {"kind": "silent"},
    "waited": {"kind": "one", "waiting": True},
    "polled": {"kind": "silent", "workers": 1, "listen": False, "poll_ms": 10},
    "worked": {"kind": "one", "workers": 1},
    "polled by 8": {"kind": "silent", "workers": 8, "listen": False, "poll_ms": 80},
    "worked by 8": {"kind": "one", "workers": 8},
}
WAKE_RATIOS = (
    ("one", "silent"),
    ("waited", "silent"),
    ("worked", "silent"),
    ("worked", "polled"),
    ("worked by 8", "silent"),
    ("worked by 8", "polled by 8"),
)
_MAKE = """
create schema wherry_bench_bare;
create table wherry_bench_bare.task (
    id bigint generated always as identity primary key, queue text not null, state smallint not null default 0,
    token bigint not null default 0, payload text not null
) with (fillfactor = 70);
create table wherry_bench_bare.order_ (id bigint generated always as identity primary key, text text not null);
"""  # noqa: E501
_INSERT = "insert into wherry_bench_bare.task (queue, payload) values ('bench', %s)"
_ORDER = "insert into wherry_bench_bare.order_ (text) values (%s)"
# A waiter that never takes anything: what a wake-up costs at worst.
_WAIT = """
insert into {schema}.waiting (queue, instance, expires_at)
values (%s, gen_random_uuid(), clock_timestamp() + interval '1 hour')
"""
Once = Callable[[int], int]
CHART = Bars(
    (
        ("tasks/s", "tasks a second"),
        ("client us", "client, us a task"),
        ("server us", "server, us a task"),
        ("WAL bytes", "WAL, bytes a task"),
    ),
    logarithmic=("tasks/s", "client us", "server us"),
)
OPTIONS = (
    option("--seconds", 2.0, "How long each variant runs"),
    option("--committers", (1, 8, 16), "How many processes commit, one after the other"),
)


def produce(ready: Ready, *, dsn: str, kind: str, seconds: float, first: int) -> dict[str, Any]:
    """Be one committer: do it for *seconds*, and tell how many tasks that made."""
    handlers.app.dsn = dsn
    with psycopg.connect(dsn, prepare_threshold=1) as connection:
        connection.autocommit = not kind.endswith("tx")
        act = _act(kind, connection)
        act(first)
        ready()
        made, began = 0, monotonic()
        while monotonic() - began < seconds:
            made += act(first + 1 + made)
        took = monotonic() - began
    handlers.app.close()
    # The first one, before the clock, made some as well.
    return {"made": made, "seconds": took, "in_all": made + (BATCH if kind == "many" else 1)}


def _act(kind: str, connection: psycopg.Connection[Any]) -> Once:
    cursor = connection.cursor()

    def one(n: int) -> int:
        handlers.nothing.enqueue(n=n)
        return 1

    silent = handlers.nothing.using(notify=False)

    def one_silently(n: int) -> int:
        silent.enqueue(n=n)
        return 1

    def many(n: int) -> int:
        handlers.nothing.enqueue_many([{"n": n + i} for i in range(BATCH)])
        return BATCH

    def in_transaction(n: int) -> int:
        cursor.execute(_ORDER, ("an order",))
        handlers.nothing.using(tx=connection).enqueue(n=n)
        connection.commit()
        return 1

    def bare_one(n: int) -> int:
        cursor.execute(_INSERT, (f'{{"n": {n}}}',))
        return 1

    def bare_copy(n: int) -> int:
        text = "".join(f'bench\t{{"n": {n + i}}}\n' for i in range(BATCH))
        with cursor.copy("copy wherry_bench_bare.task (queue, payload) from stdin") as copy:
            copy.write(text)
        return BATCH

    def bare_in_transaction(n: int) -> int:
        cursor.execute(_ORDER, ("an order",))
        cursor.execute(_INSERT, (f'{{"n": {n}}}',))
        connection.commit()
        return 1

    return {
        "one": one,
        "silent": one_silently,
        "many": many,
        "tx": in_transaction,
        "bare one": bare_one,
        "bare copy": bare_copy,
        "bare tx": bare_in_transaction,
    }[kind]


def one_run(
    place: Place,
    *,
    kind: str,
    committers: int,
    seconds: float,
    waiting: bool = False,
    workers: int = 0,
    **settings: Any,
) -> dict[str, float]:
    """Let so many processes commit for *seconds*, and count what is stored."""
    place.renew()
    place.claims.clear("wherry_bench_bare")
    place.query(_MAKE)
    if waiting:
        place.query(_WAIT, handlers.QUEUE)
    # Room for more than anybody could enqueue: their handlers leave marks.
    room = int(seconds * 500_000) if workers else 1
    with Marks.made(room) as marks:
        with Children() as children, psycopg.connect(place.dsn, autocommit=True) as listener:
            if waiting:
                [[channel]] = place.query("select channel from {schema}.settings")
                listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            for process in range(workers):
                worker.start(children, place, marks, process=process, **settings)
            share = room // (committers + 1)
            for number in range(committers):
                children.start(
                    "wherry.bench.enqueue:produce",
                    dsn=place.dsn, kind=kind, seconds=seconds, first=number * share,
                )  # fmt: skip
            for child in children.all:
                child.wait_until_ready()
            before = place.read()
            for child in children.all:
                child.go()
            results = [child.result() for child in children.all[workers:]]
            spent = place.spent(before)
            if workers:
                place.wait_until_drained()
            for child in children.all[:workers]:
                child.stop()
            for child in children.all[:workers]:
                child.result()
        made, stored = sum(r["made"] for r in results), sum(r["in_all"] for r in results)
        if not kind.startswith("bare"):
            [[found]] = place.query("select count(*) from {schema}.tasks")
            if found != stored:
                raise BenchmarkFailed(f"{stored} tasks were enqueued, {found} are stored")
            if workers:
                marks.must_be_once(stored)
                place.must_have_succeeded(stored)
    return {
        "tasks/s": sum(r["made"] / r["seconds"] for r in results),
        "client us": sum(r["cpu"] for r in results) / made * 1e6,
        **spent.each(made),
    }


def measure(place: Place, given: Given) -> Sheet:
    """Measure all variants, interleaved."""
    sheet = Sheet(
        "enqueue",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={"client us": 1, "server us": 1},
    )
    most = given.committers[-1]
    for _ in range(given.runs):
        limit.take(place, sheet, ["copy", "insert"], tasks=20_000)
        for committers in given.committers:
            for kind in [kind for pair in TWINS.items() for kind in pair]:
                if kind.endswith(("many", "copy")) and committers > 1:
                    continue
                figures = one_run(place, kind=kind, committers=committers, seconds=given.seconds)
                sheet.add(f"{kind} x{committers}", **figures)
        for wake, how in WAKES.items():
            # Workers take a moment to find out how often tasks come.
            seconds = given.seconds * (2 if how.get("workers") else 1)
            figures = one_run(place, committers=most, seconds=seconds, **how)
            sheet.add(f"{wake} x{most}", **figures)
    for committers in given.committers:
        for kind, twin in TWINS.items():
            share = sheet.ratio(f"{kind} x{committers}", f"{twin} x{committers}", "tasks/s")
            if sheet.values(f"{kind} x{committers}", "tasks/s"):
                sheet.say(f"{kind} x{committers}: {share:.2f} of {twin}")
    for name, base in WAKE_RATIOS:
        share = sheet.ratio(f"{name} x{most}", f"{base} x{most}", "tasks/s")
        sheet.say(f"{name} x{most}: {share:.2f} of {base}")
    return sheet
