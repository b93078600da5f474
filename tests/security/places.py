"""What the calls of these tests are about: tasks in a queue, and tokens that fit or do not."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

import wherry
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.tokens import CreateToken
from wherry.commands.workers import BeatWorker
from wherry.domain.cron import read_cron
from wherry.domain.options import TaskSpec
from wherry.domain.schedule import Schedule
from wherry.domain.token import Token, draw_token
from wherry.wire.lease_token import write_lease_token

_numbers = itertools.count(1)

MINE, OTHER = "mine", "other"
# Nobody who may not read the queue OTHER may be told anything that holds this.
HUSH = "hush"


@dataclass(frozen=True)
class Place:
    """A queue with one task of each kind."""

    queue: str
    ready: int
    key: str
    leased: int
    lease: str
    ended: int
    schedule: str


async def place(app: wherry.App, queue: str) -> Place:
    """Fill a queue; all that is in there holds the word HUSH."""
    n = next(_numbers)
    words: dict[str, Any] = {"queue": queue, "tags": [f"{HUSH}-tag"], "headers": {HUSH: HUSH}}
    payload = {HUSH: f"{HUSH}-payload"}
    kind = f"{HUSH}.{n}"
    leases: list[wherry.Lease] = []
    for _ in range(2):
        await app.aenqueue(f"{kind}.work", payload, **words)
        leases += await app.alease(
            worker=f"{HUSH}-w", queues=[queue], types=[f"{kind}.work"], lease_for=3600
        )
    await app.acomplete(leases[1])
    key = f"{HUSH}-{n}"
    ready = (await app.aenqueue(kind, payload, key=key, **words)).id
    schedule = await _declared(app, queue, n, kind)
    lease = write_lease_token(leases[0])
    return Place(queue, ready, key, leases[0].id, lease, leases[1].id, schedule)


async def _declared(app: wherry.App, queue: str, n: int, kind: str) -> str:
    """Return a schedule of a queue that never comes while anybody looks."""
    instance = str(UUID(int=n))
    command = BeatWorker(
        instance=instance,
        name=f"{HUSH}-declares",
        host=HUSH,
        pid=1,
        queues=(queue,),
        types=None,
        alive_seconds=1e9,
    )
    await app.acarry(command)
    task = TaskSpec(
        queue=queue,
        type=kind,
        priority=0,
        delay_seconds=None,
        run_after=None,
        max_attempts=20,
        retry=None,
        timeout_seconds=None,
        ttl_seconds=None,
        tags=(f"{HUSH}-tag",),
        headers={HUSH: HUSH},
        key_ttl_seconds=None,
        key=None,
        payload=json.dumps({HUSH: HUSH}),
    )
    declared = Schedule(f"schedule-{n}", read_cron("0 0 29 2 *"), task)
    await app.acarry(DeclareSchedules((declared,), instance))
    return declared.name


async def create(
    app: wherry.App,
    *rights: str,
    queues: tuple[str, ...] = ("*",),
    name: str | None = None,
    lasts_seconds: float | None = None,
) -> Token:
    """Return a token that was stored."""
    token = draw_token()
    command = CreateToken(
        id=token.id,
        name=name or f"t-{token.id}",
        hash=token.hash,
        rights=rights,
        queues=queues,
        created_by="me",
        lasts_seconds=lasts_seconds,
    )
    assert await app.acarry(command) is not None
    return token


def bearer(token: Token) -> str:
    """Return what its holder shows."""
    return f"Bearer {token.reveal()}"


SUMS = ("chore", "flow", "pair", "tally")


def dump(connection: psycopg.Connection[Any], *, but: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return every row of every table, but for *but*, and for when a token was used last.

    And but for the sums of the flow, which a server makes by itself meanwhile.
    """
    names = connection.execute(
        "select relname from pg_class where relnamespace = 'wherry'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition order by relname"
    ).fetchall()
    found: dict[str, list[str]] = {}
    for (name,) in names:
        if name in (*but, *SUMS):
            continue
        query = sql.SQL(
            "select (to_jsonb(t) - 'last_used_at')::text from wherry.{} t order by 1"
        ).format(sql.Identifier(name))
        found[name] = [row[0] for row in connection.execute(query)]
    assert "live" in found
    assert "audit" in found
    return found
