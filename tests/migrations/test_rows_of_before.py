"""What an older version of the schema holds is run by the newest worker, after the migrations.

The rows are put in by SQL, as the code of that version did, whatever is said of tasks in them: what
waits, is delayed, parked, leased by a worker that is gone, or dead. A new migration is among the
versions by itself.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.migrations.support import value
from tests.worker.support import at_work
from wherry import migrations
from wherry.domain.state import State
from wherry.migrations.files import read_folder

VERSIONS = [file.version for file in read_folder()]
# Since when there is a function for plain SQL.
ENQUEUE = next(file.version for file in read_folder() if file.name.endswith("_enqueue"))
STATES = ("ready", "delayed", "parked", "leased", "dead")
PAYLOAD = {
    "big": 2**70 + 1,
    "small": -1e-300,
    "text": 'é 漢 \U0001f6f6 "\\/',
    "deep": [[[{"a": None}]], True],
    "long": "x" * 30_000,
}
HEADERS = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "é": "é"}
TAGS = ["é", "b"]
ALIVE = """
insert into wherry.live (
       id, token, position, created_at, run_after, leased_at, discard_at, lease_id,
       timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, snoozes, priority,
       state, queue, type, key, tags, headers, retry, payload, last_error
)
values (%(id)s, 3, nextval('wherry.position'), now() - interval '2 days', now() - interval '1 hour',
        case when %(state)s = 'leased' then now() - interval '1 hour' end,
        now() + interval '1 day', case when %(state)s = 'leased' then %(lease)s::uuid end, 60,
        86400, 3600, 3, 20, 2, 7, %(state)s, 'q', 't', %(state)s, %(tags)s, %(headers)s,
        '{"kind": "fixed", "delay": 0}', %(payload)s, 'ValueError: before')
"""
DEAD = """
insert into wherry.finished (
       id, token, created_at, run_after, leased_at, finished_at, keep_until, lease_id, attempts,
       max_attempts, priority, state, queue, type, worker, key, tags, headers, payload, reason
)
values (%(id)s, 3, now() - interval '2 days', now() - interval '1 day', now() - interval '1 day',
        now() - interval '1 day', now() + interval '29 days', %(lease)s::uuid, 3, 3, 7, 'dead',
        'q', 't', 'w', %(state)s, %(tags)s, %(headers)s, %(payload)s, 'no attempt is left')
"""
KEY = """
insert into wherry.key (queue, key, task_id, stamp, payload_hash)
values ('q', %(state)s, %(id)s, nextval('wherry.position'),
        sha256(convert_to('t ' || %(payload)s::jsonb::text, 'UTF8')))
"""
LEASE = """
insert into wherry.lease (lease_id, expires_at, queue, worker, task_ids)
values (%(lease)s::uuid, now() - interval '1 minute', 'q', 'w', array[%(id)s::bigint])
"""
ATTEMPT = """
insert into wherry.attempt (
       task_id, queue, token, attempt, started_at, ended_at, outcome, worker, error_type, message
)
values (%(id)s, 'q', 1, 1, now() - interval '1 day', now() - interval '1 day', 'failed', 'w',
        'ValueError', 'before')
"""
IN_SQL = """
select enqueued.id
  from wherry.enqueue(
       'q', 't', %(payload)s::jsonb, key => %(state)s, priority => 7, key_ttl => '1 hour',
       timeout => '1 minute', ttl => '1 day', tags => %(tags)s, headers => %(headers)s::jsonb,
       retry => '{"kind": "fixed", "delay": 0}', delay => %(delay)s::interval
  ) as enqueued
"""


def stored(conn: psycopg.Connection[Any], version: int) -> dict[int, str]:
    """Put a task in each state, and return their ids with their keys."""
    told = {"tags": TAGS, "headers": json.dumps(HEADERS), "payload": json.dumps(PAYLOAD)}
    keys: dict[int, str] = {}
    for state in STATES:
        id_ = value(conn, "select nextval('wherry.task_id')")
        lease = value(conn, "select gen_random_uuid()")
        row = {"id": id_, "state": state, "lease": lease, **told}
        conn.execute(DEAD if state == "dead" else ALIVE, row)
        conn.execute(KEY, row)
        conn.execute(ATTEMPT, row)
        if state == "leased":
            conn.execute(LEASE, row)
        keys[id_] = state
    if version >= ENQUEUE:
        for key, delay in (("in sql", None), ("in sql, soon", "0.01 s")):
            found = conn.execute(IN_SQL, {"state": key, "delay": delay, **told}).fetchone()
            assert found is not None
            keys[found[0]] = key
    return keys


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_worker_runs_whatever_a_former_version_has_stored(
    dsn: str, version: int
) -> None:
    """DEP-07: with their numbers, texts, keys, tags and headers as they were."""
    migrations.migrate(dsn, up_to=version)
    with psycopg.connect(dsn, autocommit=True) as conn:
        keys = stored(conn, version)
        migrations.migrate(dsn)
        ran: list[tuple[str, Any, Any]] = []
        async with wherry.App(dsn) as app:

            @app.task(name="t", queue="q")
            async def t(**payload: Any) -> None:
                ctx = wherry.current()
                ran.append((keys[ctx.task_id], payload, ctx.headers))

            [dead] = [id_ for id_, key in keys.items() if key == "dead"]
            assert (await app.arequeue(dead)).answer is wherry.RequeueAnswer.QUEUED
            async with at_work(app, allow_unsafe_database=True):
                await await_for(lambda: len(ran) == len(keys), seconds=30)

            assert sorted(key for key, *_ in ran) == sorted(keys.values())
            assert all(payload == PAYLOAD and headers == HEADERS for _, payload, headers in ran)
            for id_, key in keys.items():
                task = await app.aget_task(id_)
                assert task is not None
                assert (task.state, task.key, task.tags) == (State.SUCCEEDED, key, tuple(TAGS))
                again = await t.using(queue="q", key=key).aenqueue(**PAYLOAD)
                assert (again.id, again.created, again.payload_matches) == (id_, False, True)
                assert [each.error_type for each in task.history[:1]] == (
                    [] if key.startswith("in sql") else ["ValueError"]
                )
