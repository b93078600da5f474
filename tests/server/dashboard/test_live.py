"""One pulse for all who watch: they hear of changes, and cost together what one costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

import wherry
from tests.server.dashboard.conftest import Browse, send
from wherry.commands.tokens import RevokeToken
from wherry.server.dashboard.pulse import Pulse
from wherry.server.dashboard.session import TOKEN_COOKIE

VIEWERS = 20


async def changed(stream: httpx.Response) -> None:
    """Return at the next event."""
    async for line in stream.aiter_lines():
        if line == "event: changed":
            return
    pytest.fail("the stream ended")


async def test_a_change_is_told(browse: Browse, app: wherry.App) -> None:
    client = await browse()
    async with client.stream("GET", "events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        assert [line async for line in _until(lines, "event: changed")]

        await app.aenqueue("send", {}, queue="mail")

        assert [line async for line in _until(lines, "event: changed")]


async def test_what_is_done_here_is_told_at_once(browse: Browse) -> None:
    client = await browse()
    async with client.stream("GET", "events") as stream:
        lines = stream.aiter_lines()
        assert [line async for line in _until(lines, "event: changed")]

        await send(client, "pause?queue=mail", queue="mail")

        assert [line async for line in _until(lines, "event: changed")]
        assert "mail" in (await client.get("queues")).text


async def test_twenty_who_watch_ask_what_one_asks(
    browse: Browse, app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCL-03."""
    asked: Counter[str] = Counter()
    carry = app.acarry

    async def counting(command: Any, **options: Any) -> Any:
        asked[type(command).__name__] += 1
        return await carry(command, **options)

    monkeypatch.setattr(app, "acarry", counting)
    # A busy machine takes longer for sixty pages than answers are kept.
    for name in ("KEPT_SECONDS", "LONGEST_KEPT_SECONDS"):
        monkeypatch.setattr(f"wherry.server.dashboard.shared.{name}", 600.0)

    async def watch_and_look(viewers: int) -> Counter[str]:
        """Watch with so many, look at all pages once when the first change is told."""
        client = await browse()
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(client.stream("GET", "events"))
                for _ in range(viewers)
            ]
            await asyncio.gather(*(changed(stream) for stream in streams))
            asked.clear()
            pages = [client.get(path) for path in ("", "queues", "workers") for _ in streams]
            found = await asyncio.gather(*pages)
            assert {page.status_code for page in found} == {200}
            # The pulse itself may have looked once meanwhile, for all of them.
            return Counter(asked)

    alone = await watch_and_look(1)
    together = await watch_and_look(VIEWERS)

    pulse = {"ListQueues", "ListWorkers", "ListSchedules", "ListPausedTypes"}
    assert set(together) <= set(alone) | pulse
    for command, times in together.items():
        assert times <= alone[command] + 2, command


async def test_nothing_is_asked_while_nobody_watches() -> None:
    looks = 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        return looks

    pulse = Pulse(look, look_seconds=0.0)
    assert looks == 0

    async with pulse.watched() as watch:
        assert await watch.changed(within_seconds=5)
    seen = looks
    for _ in range(20):
        await asyncio.sleep(0)

    assert looks == seen
    assert pulse.watching == 0


async def test_one_look_is_for_all_who_watch() -> None:
    looks = 0
    look_again = asyncio.Event()

    async def look() -> int:
        nonlocal looks
        looks += 1
        await look_again.wait()
        return looks

    pulse = Pulse(look, look_seconds=60)
    async with AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(pulse.watched()) for _ in range(VIEWERS)]
        hearing = [asyncio.create_task(each.changed(within_seconds=5)) for each in watches]
        await asyncio.sleep(0)
        look_again.set()

        assert await asyncio.gather(*hearing) == [True] * VIEWERS
    assert looks == 1


async def test_a_look_that_fails_is_told_and_does_not_end_it() -> None:
    answers: Iterator[int | Exception] = iter([1, wherry.Unavailable("away"), 2])

    async def look() -> int:
        answer = next(answers, 3)
        if isinstance(answer, Exception):
            raise answer
        return answer

    pulse = Pulse(look, look_seconds=0.0)
    async with pulse.watched() as watch:
        for _ in range(3):
            assert await watch.changed(within_seconds=5)


async def test_whoever_loses_their_token_is_told_no_more(
    browse: Browse, app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherry.server.auth.KEPT_SECONDS", 0.2)
    monkeypatch.setattr("wherry.server.auth.RENEWED_SECONDS", 0.1)
    client = await browse("read")
    id = client.cookies[TOKEN_COOKIE].split("_")[1]
    async with client.stream("GET", "events") as stream:
        lines = stream.aiter_lines()
        assert [line async for line in _until(lines, "event: changed")]

        await app.acarry(RevokeToken(id))
        await app.aenqueue("send", {}, queue="mail")

        # The stream ends.
        async with asyncio.timeout(20):
            async for _ in lines:
                pass
    # Whoever asks now was looked up anew.
    assert (await client.get("events")).status_code == 401


async def _until(lines: AsyncIterator[str], wanted: str) -> AsyncIterator[str]:
    async for line in lines:
        if line == wanted:
            yield line
            return
