"""A dashboard on the test's database: open, or asking for tokens, and browsers of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias

import httpx
import pytest

import wherry
from wherry.commands.tokens import CreateToken
from wherry.domain.token import draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

Browse: TypeAlias = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def browse(app: wherry.App, service: Service) -> AsyncIterator[Browse]:
    """Return a client of a new dashboard; with *rights* it asks for tokens, and has one."""
    async with AsyncExitStack() as stack:

        async def browse(*rights: str, queues: tuple[str, ...] = ("*",)) -> httpx.AsyncClient:
            authenticator = Authenticator(app, required=bool(rights))
            stack.push_async_callback(authenticator.aclose)
            settings = HttpSettings(address="127.0.0.1:0", is_open=not rights, dashboard=True)
            door = HttpDoor(service, authenticator, Polls(), settings)
            await door.start()
            stack.push_async_callback(door.stop, 0.5)
            client = httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{door.port}/dashboard/", timeout=60, trust_env=False
            )
            await stack.enter_async_context(client)
            if rights:
                token = draw_token()
                await app.acarry(
                    CreateToken(
                        id=token.id,
                        name="ada",
                        hash=token.hash,
                        rights=rights,
                        queues=queues,
                        created_by="tests",
                    )
                )
                await send(client, "login", token=token.reveal())
            return client

        yield browse


async def send(
    client: httpx.AsyncClient, path: str, /, *, at: str | None = None, **fields: str
) -> httpx.Response:
    """Send the form of a page as a browser would: with the word that stands in it."""
    page = await client.get(path)
    found = re.search(r'name="form_word" value="(\w+)"', page.text)
    word = found[1] if found else ""
    return await client.post(
        at or path.partition("?")[0],
        data={"form_word": word, **fields},
        headers={"sec-fetch-site": "same-origin"},
    )
