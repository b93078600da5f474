"""The door itself: how it opens and closes, who may come in, what it says of itself."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import wherry
from tests.facts import await_for
from tests.server.http.raw import connected, request, status_of
from wherry.commands.tokens import CreateToken
from wherry.domain.token import draw_token
from wherry.errors import ConfigError
from wherry.server.auth import Authenticator, Polls
from wherry.server.desk import Desk
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

Opened = Callable[..., Any]


@pytest.fixture
async def opened(service: Service, authenticator: Authenticator) -> Any:
    """Open doors of any kind; they are closed afterwards."""
    doors: list[HttpDoor] = []

    async def opened(judge: Authenticator | None = None, **said: Any) -> HttpDoor:
        settings = HttpSettings(**{"address": "127.0.0.1:0", "is_open": True, **said})
        door = HttpDoor(service, judge or authenticator, Polls(), settings)
        await door.start()
        doors.append(door)
        return door

    yield opened
    for door in doors:
        await door.stop(0.5)


async def asked(
    door: HttpDoor, path: str = "/api/v1/queues", method: str = "GET", **said: Any
) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return await client.request(method, f"http://127.0.0.1:{door.port}{path}", **said)


async def test_a_port_that_is_taken_is_said_in_a_sentence(opened: Opened) -> None:
    door = await opened()

    with pytest.raises(ConfigError, match="another program may have this port"):
        await opened(address=f"127.0.0.1:{door.port}")


async def test_what_is_no_address_of_ours_is_said(opened: Opened) -> None:
    for address in ("nonsense", "127.0.0.1:x", "127.0.0.1:99999", "203.0.113.7:0"):
        with pytest.raises(ConfigError):
            await opened(address=address)


async def test_localhost_is_all_of_its_addresses(opened: Opened) -> None:
    door = await opened(address="localhost:0")
    families = {found[0] for found in socket.getaddrinfo("localhost", None)}

    async with httpx.AsyncClient(trust_env=False) as client:
        for host in ["127.0.0.1", *(["[::1]"] if socket.AF_INET6 in families else [])]:
            answer = await client.get(f"http://{host}:{door.port}/healthz")
            assert answer.status_code == 200


async def test_signals_stay_with_whoever_had_them(opened: Opened) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    await opened()

    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


async def test_a_draining_door_is_not_ready_but_answers(opened: Opened) -> None:
    door = await opened()
    before = await asked(door, "/readyz")

    await door.drain()

    ready, alive, served = [
        await asked(door, path) for path in ("/readyz", "/healthz", "/api/v1/queues")
    ]
    assert before.status_code == 200
    assert (ready.status_code, ready.json()["reason"]) == (503, "SHUTTING_DOWN")
    assert (alive.status_code, served.status_code) == (200, 200)
    assert served.headers["connection"] == "close"


async def test_a_door_whose_database_is_away_is_not_ready_but_alive(
    opened: Opened, app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await opened()

    async def away(*_: Any, **__: Any) -> Any:
        raise wherry.Unavailable("host 10.1.2.3 refused the password of admin")

    monkeypatch.setattr(app, "acarry", away)
    ready, alive = await asked(door, "/readyz"), await asked(door, "/healthz")

    assert ready.status_code == 503
    assert ready.json()["reason"] == "DATABASE_UNAVAILABLE"
    assert "10.1.2.3" not in ready.text
    assert alive.status_code == 200


async def test_the_exit_waits_for_calls_but_not_for_whoever_never_ends(
    opened: Opened, desk: Desk
) -> None:
    door = await opened()
    poll = b'{"worker_id": "w", "wait": "60s"}'
    loop = asyncio.get_running_loop()
    async with connected(door.port) as polling, connected(door.port) as sending:
        await polling.send(request("POST", "/api/v1/leases", poll, port=door.port))
        await sending.send(request("POST", "/api/v1/tasks", b"{", port=door.port, whole=False))
        await await_for(lambda: desk._waiters)
        began_at = loop.time()

        await door.stop(0.3)

        took = loop.time() - began_at
        told = await polling.all()
        other = await sending.all()

    assert took < 4
    assert (status_of(told), status_of(other)) == (503, 503)
    assert b"SHUTTING_DOWN" in told


async def test_a_poll_that_is_answered_by_the_drain_ends_well(opened: Opened, desk: Desk) -> None:
    door = await opened()
    poll = {"worker_id": "w", "wait": "60s"}
    polling = asyncio.create_task(asked(door, "/api/v1/leases", "POST", json=poll))
    await await_for(lambda: desk._waiters)

    desk.drain()
    await door.stop(2)

    assert (await polling).json()["tasks"] == []


async def test_other_web_sites_are_kept_away_from_an_open_server(opened: Opened) -> None:
    door = await opened(hosts=("tasks.test",))
    port = door.port
    own, body = f"127.0.0.1:{port}", {"type": "a"}
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 201),
        ({"host": f"localhost:{port}"}, 201),
        ({"host": "LOCALHOST."}, 201),
        ({"host": "wherry.localhost"}, 201),
        ({"host": f"[::1]:{port}"}, 201),
        ({"host": "127.8.9.1"}, 201),
        ({"host": "tasks.test:80"}, 201),
        ({"host": own, "origin": f"http://{own}", "sec-fetch-site": "same-origin"}, 201),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "127.0.0.1:80@evil.example"}, 403),
        ({"host": "10.0.0.1"}, 403),
        ({"host": "[::1]evil"}, 403),
        ({"host": "0x7f.1"}, 403),
        ({"host": ""}, 403),
        ({"host": own, "origin": "https://evil.example"}, 403),
        ({"host": own, "origin": "null"}, 403),
        ({"host": own, "origin": f"http://localhost:{port}"}, 403),
        ({"host": own, "origin": f"http://127.0.0.1:{port + 1}"}, 403),
        ({"host": own, "sec-fetch-site": "cross-site"}, 403),
        ({"host": own, "sec-fetch-site": "same-site"}, 403),
    ]

    found = [
        (
            headers,
            (await asked(door, "/api/v1/tasks", "POST", json=body, headers=headers)).status_code,
        )
        for headers, _ in cases
    ]

    assert found == cases


async def test_a_foreign_name_reads_nothing_of_an_open_server(opened: Opened) -> None:
    door = await opened()

    for path in ("/api/v1/queues", "/docs", "/openapi.json", "/nope"):
        answer = await asked(door, path, headers={"host": "evil.example"})
        assert (answer.status_code, answer.json()["reason"]) == (403, "FOREIGN_HOST")

    assert (await asked(door, "/healthz", headers={"host": "evil.example"})).status_code == 200


async def test_where_tokens_are_needed_they_are(opened: Opened, app: wherry.App) -> None:
    judge = Authenticator(app)
    drawn = draw_token()
    await app.acarry(
        CreateToken(
            id=drawn.id,
            name="reader",
            hash=drawn.hash,
            rights=("read",),
            queues=("mail*",),
            created_by="me",
        )
    )
    door = await opened(judge, is_open=False)
    me = {"authorization": f"Bearer {drawn.reveal()}"}

    stranger = await asked(door)
    known = await asked(
        door, headers={**me, "host": "tasks.example", "origin": "https://x.example"}
    )
    refused = await asked(door, "/api/v1/tasks", "POST", json={"type": "a"}, headers=me)
    elsewhere = await asked(door, "/api/v1/tasks?queue=other", headers=me)
    everywhere = await asked(door, "/api/v1/tasks", headers=me)
    mine = await asked(door, "/api/v1/tasks?queue=mails", headers=me)
    twice = await asked(door, headers=[("authorization", me["authorization"])] * 2)
    page = await asked(door, "/docs")
    await judge.aclose()

    assert stranger.status_code == 401
    assert stranger.headers["www-authenticate"].startswith("Bearer")
    assert stranger.json()["reason"] == "UNAUTHENTICATED"
    assert known.status_code == 200
    assert "access-control-allow-origin" not in known.headers
    assert [refused.status_code, elsewhere.status_code, everywhere.status_code] == [403] * 3
    assert "'*'" in everywhere.json()["detail"]
    assert mine.status_code == 200
    assert twice.status_code == 401
    assert page.status_code == 200


async def test_an_unknown_caller_is_refused_before_their_body_is_read(
    opened: Opened, app: wherry.App
) -> None:
    judge = Authenticator(app)
    door = await opened(judge, is_open=False)

    async with connected(door.port) as raw:
        await raw.send(request("POST", "/api/v1/tasks", b"{", port=door.port, whole=False))
        told = await raw.head()
        rest = await raw.all()
    await judge.aclose()

    assert status_of(told) == 401
    assert b"UNAUTHENTICATED" in rest


async def test_every_answer_has_headers_of_caution(opened: Opened) -> None:
    door = await opened()

    for path in ("/api/v1/queues", "/nope", "/docs", "/docs.css", "/openapi.json", "/healthz"):
        headers = (await asked(door, path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    assert (await asked(door)).headers["cache-control"] == "no-store"


async def test_the_access_log_holds_the_route_and_nothing_that_was_sent(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    door = await opened()

    with caplog.at_level(logging.DEBUG):
        headers = {"authorization": "Bearer secret-token"}
        await asked(door, "/api/v1/tasks/123456789?secret=query", headers=headers)
        await asked(door, "/api/v1/tasks", "POST", json={"type": "secret-type"})
        await asked(door, "/secret-path")

    said = [record.getMessage() for record in caplog.records if record.name.endswith("access")]
    assert [line.rsplit(" ", 2)[0] for line in said] == [
        "GET /api/v1/tasks/{id} 400",
        "POST /api/v1/tasks 201",
        "GET (no route) 404",
    ]
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert not [record for record in ours if "secret" in record.getMessage()]


async def test_a_mistake_of_ours_is_told_by_an_id_that_is_in_the_log(
    opened: Opened,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = await opened()

    async def mistaken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("select * from secrets")

    monkeypatch.setattr(service, "list_queues", mistaken)
    answer = await asked(door)

    assert answer.status_code == 500
    assert answer.json()["reason"] == "INTERNAL"
    assert "secrets" not in answer.text
    assert answer.json()["id"] in caplog.text


async def test_behind_a_prefix_everything_works_and_links_are_relative(opened: Opened) -> None:
    door = await opened(root_path="/queue")

    # The proxy takes the prefix off.
    stored = await asked(door, "/api/v1/tasks", "POST", json={"type": "a"})
    page = await asked(door, "/docs")
    document = (await asked(door, "/openapi.json")).json()

    assert stored.headers["location"] == f"tasks/{stored.json()['id']}"
    assert 'href="docs.css"' in page.text
    assert 'href="/' not in page.text
    assert document["servers"] == [{"url": "api/v1"}]
