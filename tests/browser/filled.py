"""A shop's database as it may look at three in the morning, for the dashboard to show.

Run by hand it serves the dashboard on such a database until Ctrl-C, to look at while one works on
it: `.venv/bin/python -m tests.browser.filled [PORT]`. What is in it is the same each time, but for
the moment: all times are relative to now.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg

import wherry
from tests.browser.filled_by_hand import fill_by_hand
from tests.browser.filled_schedules import fill_schedules
from tests.browser.shop import HANDS, WORK, Work
from wherry.config import ServerSettings
from wherry.domain.flow import BOUNDS_SECONDS
from wherry.server.run import serve
from wherry.testing.postgres import TemplateServer

DAY_MINUTES = 24 * 60
WEEK_HOURS = 7 * 24


def fill(dsn: str, *, seed: int = 11) -> None:
    """Fill a fresh database."""
    chance = random.Random(seed)
    now = datetime.now(UTC)
    with psycopg.connect(dsn) as connection:
        _history(connection, chance, now)
        _tasks(connection, chance, now)
        _workers(connection, now)
        fill_by_hand(connection, now)
        fill_schedules(connection, now)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("analyze")


def _many(
    connection: psycopg.Connection[Any], statement: LiteralString, rows: list[tuple[Any, ...]]
) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _history(connection: psycopg.Connection[Any], chance: random.Random, now: datetime) -> None:
    """Write what the sums say of the last day in minutes, and of the last week in hours."""
    pairs = [(n, work.queue, work.type) for n, work in enumerate(WORK, 1)]
    _many(connection, "copy wherry.pair (id, queue, type) from stdin", pairs)
    rows: list[tuple[Any, ...]] = []
    minute = now.replace(second=0, microsecond=0)
    for back in range(DAY_MINUTES):
        at = minute - timedelta(minutes=back)
        share = (now - at).total_seconds() / 60 if back == 0 else 1.0
        for pair, work in enumerate(WORK, 1):
            rows += _sums("minute", at, pair, work, chance, minutes=share, back_minutes=back)
    hour = now.replace(minute=0, second=0, microsecond=0)
    for back in range(WEEK_HOURS):
        at = hour - timedelta(hours=back)
        for pair, work in enumerate(WORK, 1):
            rows += _sums("hour", at, pair, work, chance, minutes=60.0, back_minutes=back * 60)
    for pair, work in enumerate(WORK, 1):
        ended = int(work.per_minute * DAY_MINUTES * 7)
        live = work.ready + work.delayed + work.leased + work.parked
        ever = {
            "enqueued": ended + work.dead + live,
            "succeeded": ended,
            "dead": work.dead,
            "delayed": work.delayed,
            "parked": work.parked,
        }
        rows += [
            ("ever", datetime(2000, 1, 1, tzinfo=UTC), pair, kind, 0, n, 0.0)
            for kind, n in ever.items()
            if n
        ]
    columns = "step, at, pair, kind, bucket, n, seconds"
    _many(connection, f"copy wherry.tally ({columns}) from stdin", rows)
    connection.execute(
        "update wherry.chore set done_at = wherry.now(), due_at = wherry.now(),"
        " folded_until = case when name = 'roll' then wherry.now() + interval '1 day' end"
    )


def _sums(
    step: str,
    at: datetime,
    pair: int,
    work: Work,
    chance: random.Random,
    *,
    minutes: float,
    back_minutes: int,
) -> list[tuple[Any, ...]]:
    hour = at.hour + at.minute / 60
    tide = 1.0 + 0.45 * math.sin((hour - 9) / 24 * 2 * math.pi)
    mean = work.per_minute * minutes * tide
    came = max(0, round(chance.gauss(mean, math.sqrt(mean) + mean * 0.04)))
    slow = 1.0
    done = came
    trouble = work.error.startswith("Payment") and back_minutes < 38
    if trouble:
        done, slow = round(came * 0.32), 4.0
    elif work.queue == "search-index" and back_minutes < 12:
        done = round(came * 0.4)
    failing = 0.5 if trouble else work.failing
    failed = sum(chance.random() < failing for _ in range(min(done, 400)))
    dead = round(failed * (0.3 if trouble else 0.06))
    rows: list[tuple[Any, ...]] = [
        (step, at, pair, kind, 0, n, 0.0)
        for kind, n in {
            "enqueued": came,
            "succeeded": max(0, done - failed),
            "retried": failed - dead,
            "dead": dead,
        }.items()
        if n
    ]
    waits = work.wait_seconds * (1 + (38 - back_minutes) * 45 if trouble else 1)
    for kind, median, spread in (
        ("wait", waits, 1.1),
        ("run", work.run_seconds * slow, 0.55),
    ):
        rows += _histogram(step, at, pair, kind, done, median, spread, chance)
    return rows


def _histogram(
    step: str,
    at: datetime,
    pair: int,
    kind: str,
    n: int,
    median: float,
    spread: float,
    chance: random.Random,
) -> list[tuple[Any, ...]]:
    counts: dict[int, int] = {}
    seconds = 0.0
    drawn = min(n, 60)
    for _ in range(drawn):
        took = median * math.exp(chance.gauss(0, spread))
        bucket = next((i for i, high in enumerate(BOUNDS_SECONDS) if took <= high), 18)
        counts[bucket] = counts.get(bucket, 0) + 1
        seconds += took
    weight = n / drawn if drawn else 0
    return [
        (
            step,
            at,
            pair,
            kind,
            bucket,
            max(1, round(count * weight)),
            seconds * count / drawn * weight,
        )
        for bucket, count in counts.items()
    ]


def _tasks(connection: psycopg.Connection[Any], chance: random.Random, now: datetime) -> None:
    live: list[tuple[Any, ...]] = []
    finished: list[tuple[Any, ...]] = []
    attempts: list[tuple[Any, ...]] = []
    leases: list[tuple[Any, ...]] = []
    id = 48_210_000
    for work in WORK:
        for state in ("leased", "ready", "delayed", "parked"):
            lease = str(uuid.UUID(int=chance.getrandbits(128)))
            held: list[int] = []
            n = getattr(work, state)
            for turn in range(n):
                id += 1
                due = now - work.oldest_due * (1 - turn / n) if state == "ready" else now
                if state == "delayed":
                    due = now + timedelta(seconds=chance.uniform(30, 7200))
                leased_at = now - timedelta(seconds=chance.uniform(0.2, 30))
                live.append(
                    (
                        id,
                        id,
                        1 if state == "leased" else 0,
                        due,
                        due,
                        leased_at if state == "leased" else None,
                        lease if state == "leased" else None,
                        1 if state == "leased" else 0,
                        20,
                        0,
                        state,
                        work.queue,
                        work.type,
                        _payload(work, chance),
                        work.error or None,
                    )
                )
                held.append(id)
            if state == "leased" and n:
                hand = next((h for h in HANDS if work.queue in (h.queues or ())), HANDS[0])
                leases.append((lease, now + timedelta(hours=2), work.queue, hand.name, held))
        for turn in range(work.dead + min(120, int(work.per_minute) + 3)):
            id += 1
            is_dead = turn < work.dead
            ended = now - timedelta(seconds=chance.uniform(5, 5400 if is_dead else 1200))
            ran = timedelta(seconds=work.run_seconds)
            began = ended - ran
            came = began - timedelta(minutes=4 if is_dead else 0)
            error = work.error or "ValueError: the address has no domain"
            finished.append(
                (
                    id,
                    3,
                    came,
                    began,
                    began,
                    ended,
                    ended + timedelta(days=30),
                    5 if is_dead else 1,
                    5,
                    0,
                    "dead" if is_dead else "succeeded",
                    work.queue,
                    work.type,
                    HANDS[0].name,
                    _payload(work, chance),
                    None if is_dead else json.dumps({"ok": True}),
                    error if is_dead else None,
                )
            )
            if is_dead:
                kind, _, message = error.partition(": ")
                trace = _TRACE.format(type=work.type, error=error)
                attempts += [
                    (
                        id,
                        work.queue,
                        attempt,
                        attempt,
                        began - timedelta(minutes=5 - attempt),
                        ended - timedelta(minutes=5 - attempt),
                        "failed",
                        HANDS[0].name,
                        kind,
                        message,
                        trace,
                    )
                    for attempt in range(1, 6)
                ]
    _many(
        connection,
        "copy wherry.live (id, position, token, created_at, run_after, leased_at, lease_id,"
        " attempts, max_attempts, priority, state, queue, type, payload, last_error) from stdin",
        live,
    )
    _many(
        connection,
        "copy wherry.finished (id, token, created_at, run_after, leased_at, finished_at,"
        " keep_until, attempts, max_attempts, priority, state, queue, type, worker, payload,"
        " result, last_error) from stdin",
        finished,
    )
    _many(
        connection,
        "copy wherry.attempt (task_id, queue, token, attempt, started_at, ended_at, outcome,"
        " worker, error_type, message, traceback) from stdin",
        attempts,
    )
    _many(
        connection,
        "copy wherry.lease (lease_id, expires_at, queue, worker, task_ids) from stdin",
        leases,
    )
    connection.execute("select setval('wherry.task_id', %s)", [id + 1])
    connection.execute("select setval('wherry.position', %s)", [id + 1])


_TRACE = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 88, in {type}
    answer = await client.post(url, json=body)
  File "/srv/shop/client.py", line 41, in post
    raise error from None
{error}
"""


def _payload(work: Work, chance: random.Random) -> str:
    order = chance.randrange(10**6, 10**7)
    return json.dumps(
        {
            "order": order,
            "customer": f"c-{order % 9973}",
            "amount": f"{order % 400}.90 EUR",
            "address": {"email": f"customer{order % 997}@example.com"},
            "password": "correct horse",
        }
    )


def _workers(connection: psycopg.Connection[Any], now: datetime) -> None:
    for n, hand in enumerate(HANDS):
        beat = now - timedelta(seconds=3 + n) if hand.is_alive else now - timedelta(minutes=14)
        by, why = hand.asked_by or (None, None)
        connection.execute(
            "insert into wherry.worker (instance, name, host, pid, queues, types, started_at,"
            " beat_at, expires_at, directive, directed_by, directive_reason, slots, version,"
            " memory_bytes)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                str(uuid.UUID(int=n + 1)),
                hand.name,
                hand.host,
                4100 + n,
                hand.queues,
                hand.types,
                now - hand.up,
                beat,
                beat + timedelta(hours=2 if hand.is_alive else 0),
                hand.directive,
                by,
                why,
                hand.slots,
                wherry.__version__,
                hand.memory_mib * 1024**2,
            ],
        )


def main() -> None:
    """Serve the dashboard on a database that is filled anew."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
    with TemplateServer() as server, server.database() as dsn:
        fill(dsn)
        print(f"http://127.0.0.1:{port}/dashboard/ on {dsn}", flush=True)
        settings = ServerSettings(grpc_address=None, http_address=f"127.0.0.1:{port}")
        asyncio.run(serve(wherry.App(dsn), settings, signals=True))


if __name__ == "__main__":
    main()
