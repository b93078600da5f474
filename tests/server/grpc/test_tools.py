"""A tool that knows nothing but the address finds the service by reflection, and calls it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import wherry
from wherry.commands.tokens import CreateToken
from wherry.domain.token import draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.service import Service

BUF = Path(sys.executable).parent / "buf"


async def curl(door: GrpcDoor, *arguments: str, path: str = "", home: Path) -> str:
    """Run `buf curl`; returns what it printed."""
    url = f"http://127.0.0.1:{door.port}{path}"
    process = await asyncio.create_subprocess_exec(
        BUF,
        "curl",
        "--protocol",
        "grpc",
        "--http2-prior-knowledge",
        *arguments,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "BUF_CACHE_DIR": str(home), "NO_PROXY": "127.0.0.1"},
    )
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, error.decode()
    return out.decode()


async def called(door: GrpcDoor, name: str, request: dict[str, Any], *, home: Path) -> Any:
    path = f"/wherry.v1.TaskQueue/{name}"
    return json.loads(await curl(door, "--data", json.dumps(request), path=path, home=home))


async def test_buf_curl_finds_the_service_and_calls_it(door: GrpcDoor, tmp_path: Path) -> None:
    services = await curl(door, "--list-services", home=tmp_path)
    methods = await curl(door, "--list-methods", home=tmp_path)

    assert services.split() == ["grpc.health.v1.Health", "wherry.v1.TaskQueue"]
    assert "wherry.v1.TaskQueue/Enqueue" in methods.split()

    wanted = {
        "type": "shop.send",
        "queue": "mail",
        "payload": '{"to":"a@example.com"}',
        "delay": "1.5s",
        "retry": {"fixed": {"delay": "2s"}},
    }
    stored = await called(door, "Enqueue", wanted, home=tmp_path)
    read = await called(door, "GetTask", {"id": stored["id"]}, home=tmp_path)

    assert stored["created"] is True
    assert read["task"]["id"] == stored["id"]
    assert read["task"]["state"] == "STATE_QUEUED"
    assert read["task"]["payload"] == wanted["payload"]
    assert read["task"]["retry"] == wanted["retry"]


async def test_buf_curl_shows_a_token_for_reflection_too(
    app: wherry.App, service: Service, tmp_path: Path
) -> None:
    drawn = draw_token()
    made = CreateToken(
        id=drawn.id, name="r", hash=drawn.hash, rights=("read",), queues=("*",), created_by="me"
    )
    await app.acarry(made)
    stored = await app.aenqueue("t")
    authenticator = Authenticator(app)
    door = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    try:
        shown = ("--header", f"authorization: Bearer {drawn.reveal()}")
        wanted = ("--data", json.dumps({"id": str(stored.id)}))
        path = "/wherry.v1.TaskQueue/GetTask"
        with pytest.raises(AssertionError, match="failed to find service"):
            await curl(door, *shown, *wanted, path=path, home=tmp_path)
        read = await curl(door, *shown, "--reflect-header", "*", *wanted, path=path, home=tmp_path)
    finally:
        await door.stop(0.5)
        await authenticator.aclose()

    assert json.loads(read)["task"]["id"] == str(stored.id)
