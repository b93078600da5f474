"""What nobody may read: payloads, tokens, and the password of the database."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.security.doors import Calls, GrpcCalls, HttpCalls
from tests.security.places import bearer, create
from tests.security.process import ANYWHERE, Served, started
from wherry.commands.tokens import RevokeToken
from wherry.domain.token import Token, draw_token

MARKER = "xyzzy-nobody-may-see-this"
# The name of something in a payload: who sent it is told where it is wrong, and nobody else.
NAME = "frotz-may-the-sender-see"
PASSWORD = "plugh-nor-this"
RIGHTS = ("enqueue", "work", "read", "admin")


def secrets_of(*tokens: Token) -> list[str]:
    """Return everything that must not be read anywhere, in every form that it could have."""
    found = [MARKER, PASSWORD]
    for token in tokens:
        secret = token.reveal().rpartition("_")[2]
        found += [
            secret[:20],
            secret[-20:],
            token.hash.hex(),
            base64.b64encode(token.hash).decode(),
        ]
    return found


def leaks(text: str, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if secret in text]


class Round:
    """The whole life of a task, and everything that can go wrong; keeps what was refused."""

    def __init__(self, call: Calls, shown: str) -> None:
        self.call = call
        self.shown = shown
        self.refusals: list[str] = []

    async def ask(self, rpc: str, fields: dict[str, Any], *shown: str) -> Any:
        said = await self.call(rpc, fields, *(shown or (self.shown,)))
        if said.code != "OK" or "problem" in said.text:
            self.refusals.append(said.text)
        return said.body

    async def go(self) -> None:
        queue = f"q-{self.call.name}"
        payload = json.dumps({NAME: MARKER})
        error = {"type": "E", "message": MARKER, "traceback": MARKER}
        task = {"queue": queue, "type": "t", "payload": payload, "headers": {"h": MARKER}}
        for n in range(4):
            await self.ask("Enqueue", {**task, "key": f"{n}"})
        await self.ask("Enqueue", {**task, "key": "0"})
        asked = {"worker_id": "w", "queues": [queue], "max_tasks": 10}
        leases = [each["lease"] for each in (await self.ask("Lease", asked))["tasks"]]
        await self.ask("Heartbeat", {"leases": leases, "worker_id": "w"})
        for _ in range(2):
            result = json.dumps([MARKER])
            await self.ask("Complete", {"lease": leases[0], "result": result})
            await self.ask("Fail", {"lease": leases[1], "error": error, "reason": MARKER})
            await self.ask("Snooze", {"lease": leases[2], "delay": "60s"})
            await self.ask("Complete", {"lease": leases[2]})
        await self.ask("Report", {"outcomes": [{"lease": leases[3], "fail": {"error": error}}]})
        # What is refused for what it holds.
        bad: list[dict[str, Any]] = [
            {**task, "payload": json.dumps({"a": {NAME: "\0" + MARKER}})},
            {**task, "payload": json.dumps({NAME: MARKER * 100_000})},
            {**task, "payload": json.dumps([MARKER])},
            {**task, "payload": json.dumps({NAME: MARKER}), "priority": 1000},
            {**task, "delay": "-5s"},
            {**task, "type": "", "key": "k"},
        ]
        for each in bad:
            await self.ask("Enqueue", each)
        await self.ask("EnqueueBatch", {"tasks": bad})
        await self.ask("EnqueueBatch", {"tasks": bad, "all_or_nothing": True})
        await self.ask("Complete", {"lease": "x", "result": json.dumps(MARKER)})
        await self.ask("Complete", {"lease": leases[3], "result": json.dumps(MARKER)})
        for rpc in ("CancelTasks", "RequeueTasks", "PurgeTasks"):
            await self.ask(rpc, {"selection": {"filter": {"queue": queue}}, "reason": "why"})


async def refused_with(call: Calls, *shown: str) -> str:
    said = await call("Enqueue", {"type": "t", "payload": json.dumps({"x": MARKER})}, *shown)
    assert said.code == "UNAUTHENTICATED"
    return said.text


async def shown_pages(client: httpx.AsyncClient) -> str:
    pages = ("/docs", "/docs.css", "/openapi.json", "/healthz", "/readyz", "/nowhere")
    return "".join([(await client.get(path)).text for path in pages])


def seen_in_postgresql(sql: psycopg.Connection[Any]) -> str:
    rows = sql.execute("select application_name, query from pg_stat_activity").fetchall()
    assert any(name.startswith("wherry server") for name, _ in rows)
    return repr(rows)


async def rounds(server: Served, app: wherry.App, good: Token, wrong: list[str]) -> list[str]:
    """Go one round through each door; returns everything that was refused or is public."""
    seen: list[str] = []
    async with (
        grpc.aio.insecure_channel(server.grpc) as channel,
        httpx.AsyncClient(base_url=server.http, trust_env=False, timeout=30) as client,
    ):
        calls: list[Calls] = [GrpcCalls(channel), HttpCalls(client)]
        for call in calls:
            one = Round(call, bearer(good))
            await one.go()
            assert len(one.refusals) > 8
            seen += one.refusals
            seen += [await refused_with(call, shown) for shown in wrong]
        seen.append(await shown_pages(client))
        for body in (
            b'{"type": "t", "payload": {"x": "' + MARKER.encode() + b'", "y": tru',
            b'{"type": "t", "payload": "' + MARKER.encode() + b'"}',
            b'{"type": "t", "payload": {"a": 1, "a": "' + MARKER.encode() + b'"}}',
            b'{"type": "t", "payload": {"a": "' + MARKER.encode() + b'\xff"}}',
        ):
            headers = {"authorization": bearer(good), "content-type": "application/json"}
            said = await client.post("/api/v1/tasks", content=body, headers=headers)
            assert said.status_code == 400
            seen.append(said.text)
    return seen


async def test_no_secret_is_read_anywhere(
    app: wherry.App, dsn: str, tmp_path: Path, connect: Callable[..., Any]
) -> None:
    """SEC-06: not in the log at -vv, an answer, a page, `ps`, PostgreSQL or the audit."""
    sql = connect()
    good, revoked, made_up = await create(app, *RIGHTS), await create(app, *RIGHTS), draw_token()
    await app.acarry(RevokeToken(revoked.id))
    wrong_secret = f"Bearer wherry_{good.id}_{made_up.reveal().rpartition('_')[2]}"
    wrong = [bearer(revoked), bearer(made_up), wrong_secret, f"Basic {good.reveal()}"]
    secrets = secrets_of(good, revoked, made_up)
    with (
        psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as admin,
        started(
            tmp_path, *ANYWHERE, "--auth", "-vv", dsn=make_conninfo(dsn, password=PASSWORD)
        ) as server,
    ):
        server.up()
        seen = await rounds(server, app, good, wrong)
        # A mistake of ours: PostgreSQL's words about it hold the whole row.
        sql.execute("alter table wherry.live add constraint x check (type <> 'mistake')")
        fields = {"type": "mistake", "payload": json.dumps({NAME: MARKER})}
        async with grpc.aio.insecure_channel(server.grpc) as channel:
            said = await GrpcCalls(channel)("Enqueue", fields, bearer(good))
            assert said.code == "INTERNAL", said
            seen.append(said.text)
            sql.execute(
                "alter table wherry.live add constraint y check (state <> 'leased') not valid"
            )
            ours = GrpcCalls(channel)
            await ours("Enqueue", {**fields, "type": "t", "queue": "y", "key": "y"}, bearer(good))
            said = await ours("Lease", {"worker_id": "w", "queues": ["y"]}, bearer(good))
            seen.append(said.text)
            sql.execute("alter table wherry.live drop constraint y")
        activity = seen_in_postgresql(sql)
        title = server.title()
        database = sql.info.dbname
        # The database goes away under it.
        admin.execute(f'alter database "{database}" with allow_connections false'.encode())
        sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        async with (
            grpc.aio.insecure_channel(server.grpc) as channel,
            httpx.AsyncClient(base_url=server.http, trust_env=False, timeout=30) as client,
        ):
            calls: list[Calls] = [GrpcCalls(channel), HttpCalls(client)]
            fields = {"type": "t", "payload": json.dumps({"x": MARKER})}
            # Together: each waits for the database for some seconds.
            away = await asyncio.gather(
                *(
                    call("Enqueue", fields, shown)
                    for call in calls
                    for shown in (bearer(good), bearer(draw_token()))
                )
            )
            for said in away:
                assert said.code == "UNAVAILABLE", said
                assert database not in said.text
                assert sql.info.host not in said.text
                seen.append(said.text)
            seen.append((await client.get("/readyz")).text)
        admin.execute(f'alter database "{database}" with allow_connections true'.encode())
        code = server.end()
        log = server.said

    assert code == 0, log
    assert "wrong secret" in log  # it says everything that it has to say
    assert 'violates check constraint "x"' in log
    assert 'violates check constraint "y"' in log
    assert "Failing row" not in log
    assert leaks(log, [*secrets, NAME]) == []
    assert [text for text in seen if leaks(text, secrets)] == []
    assert leaks(title + activity, [*secrets, NAME]) == []
    audit = repr(sql.execute("select to_jsonb(a) from wherry.audit a").fetchall())
    assert "requeue_tasks" in audit
    assert leaks(audit, [*secrets, NAME]) == []
    # Where it should be it is: what is looked for above would have been found.
    assert MARKER in repr(sql.execute("select payload::text from wherry.tasks").fetchall())


def test_a_server_that_cannot_reach_its_database_does_not_tell_the_password(
    dsn: str, tmp_path: Path
) -> None:
    """SEC-06: at the start, with the password in each form of a DSN."""
    parts = conninfo_to_dict(dsn)
    parts.pop("host", None)
    nowhere = {**parts, "host": "127.0.0.1", "port": "1", "password": PASSWORD}
    forms = {
        "words": make_conninfo("", **{**nowhere, "connect_timeout": 2}),
        "address": f"postgresql://me:{PASSWORD}@127.0.0.1:1/db?connect_timeout=2",
        "query": f"postgresql://127.0.0.1:1/db?user=me&password={PASSWORD}&connect_timeout=2",
        "broken": f"postgresql://me:{PASSWORD}@[::1/db",
        "unknown": f"host=127.0.0.1 port=1 password={PASSWORD} nonsense=1",
    }
    for name, form in forms.items():
        folder = tmp_path / name
        folder.mkdir()
        with started(folder, *ANYWHERE, "-vv", dsn=form) as server:
            assert server.process.wait(timeout=30) != 0, name
            assert PASSWORD not in server.said, f"{name}: {server.said}"
            assert server.said
