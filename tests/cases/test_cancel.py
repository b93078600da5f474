"""What others canceled in one place ran on in another: every way to cancel reaches the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import httpx
import pytest
from click.testing import CliRunner

import wherry
from tests.server.dashboard.conftest import send
from tests.worker.support import at_work, finished
from wherry.cli import main
from wherry.config import ServerSettings
from wherry.domain.state import State
from wherry.server.run import Server

HERE = ServerSettings(grpc_address="127.0.0.1:0", http_address="127.0.0.1:0")
WHY = "enough"
Cancel: TypeAlias = Callable[[wherry.App, Server, int], Awaitable[object]]


async def by_python(app: wherry.App, server: Server, id: int) -> None:
    await asyncio.to_thread(app.cancel, id, reason=WHY)


async def by_grpc(app: wherry.App, server: Server, id: int) -> None:
    async with wherry.App(f"grpc://{server.bound.grpc_url}") as remote:
        await remote.acancel(id, reason=WHY)


async def by_http(app: wherry.App, server: Server, id: int) -> None:
    async with httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client:
        answer = await client.post(f"/api/v1/tasks/{id}:cancel", json={"reason": WHY})
        assert answer.status_code == 200, answer.text


async def by_dashboard(app: wherry.App, server: Server, id: int) -> None:
    base = f"{server.bound.http_url}/dashboard/"
    async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
        answer = await send(client, f"task-cancel?id={id}", id=str(id), reason=WHY)
        assert answer.status_code == 303, answer.text


async def by_command_line(app: wherry.App, server: Server, id: int) -> None:
    words = ["tasks", "cancel", str(id), "--reason", WHY]
    done = await asyncio.to_thread(CliRunner().invoke, main, words, env={"WHERRY_DSN": app.dsn})
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("cancel", [by_python, by_grpc, by_http, by_dashboard, by_command_line])
async def test_a_cancel_from_anywhere_reaches_the_handler(app: wherry.App, cancel: Cancel) -> None:
    """CAN-03: the handler itself notes that it was stopped; there is no function of SQL for it."""
    began = asyncio.Event()
    stopped: list[int] = []

    @app.task(name="waits")
    async def waits() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(wherry.current().task_id)
            raise

    id = (await app.aenqueue("waits")).id

    async with Server(app, HERE) as server, at_work(app, lease_for=3):
        await began.wait()
        await cancel(app, server, id)
        task = await finished(app, id)

    assert stopped == [id]
    assert (task.state, task.reason) == (State.CANCELED, WHY)
