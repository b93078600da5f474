"""Bad input is refused as such, whatever it is, however much of it comes, and costs no memory.

A server runs as a process, so that its memory is its own. `--fuzz-calls 100000` makes it a hunt.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest

import wherry
from tests.security.fuzz import grpc_request, http_request
from tests.security.places import MINE, OTHER, Place, place
from tests.security.process import ANYWHERE, Served, started

SEED = 20_261_130
# So many at a time.
CALLERS = 8
# What Python and its libraries may keep when they have seen everything once.
GROWTH_KIB = 24 * 1024


@pytest.fixture
def calls(request: pytest.FixtureRequest) -> int:
    """How many calls each door gets."""
    found: Any = request.config.getoption("--fuzz-calls")
    return int(found)


@pytest.fixture
def served(dsn: str, tmp_path: Path) -> Iterator[Served]:
    """A server of its own process that asks for no tokens, so that everything gets through."""
    with started(tmp_path, *ANYWHERE, dsn=dsn) as server:
        server.up()
        yield server


async def answers(served: Served) -> None:
    """Fail unless both doors still answer."""
    async with httpx.AsyncClient(base_url=served.http, trust_env=False) as client:
        assert (await client.get("/api/v1/queues")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        call: Any = channel.unary_unary("/wherry.v1.TaskQueue/ListQueues")
        await call(b"", timeout=10)


def quiet(served: Served) -> None:
    """Fail if the server has made a mistake, or has said so."""
    for word in ("Traceback", " error ", "made a mistake"):
        assert word not in served.said, served.said[-3000:]


async def some_places(app: wherry.App) -> list[Place]:
    return [await place(app, queue) for queue in (MINE, OTHER) * 3]


async def flood_http(served: Served, places: list[Place], n: int, *, seed: int) -> Counter[int]:
    draw = random.Random(seed)
    seen: Counter[int] = Counter()
    base = httpx.URL(served.http)
    async with httpx.AsyncHTTPTransport() as transport:
        for _ in range(n):
            method, target, body, headers = http_request(draw, places)
            url = base.copy_with(raw_path=target)
            request = httpx.Request(
                method, url, headers=headers, content=body, extensions={"timeout": {"read": 30}}
            )
            said = await transport.handle_async_request(request)
            text = await said.aread()
            assert said.status_code < 500, (method, target, body[:500], text[:500])
            if said.status_code == 400 and method == "POST":
                # It says what is wrong, as problem details.
                assert said.headers["content-type"] == "application/problem+json"
            seen[said.status_code] += 1
    return seen


async def flood_grpc(served: Served, places: list[Place], n: int, *, seed: int) -> Counter[str]:
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        for _ in range(n):
            rpc, data = grpc_request(draw, places)
            call: Any = channel.unary_unary(f"/wherry.v1.TaskQueue/{rpc}")
            code = await call(data, timeout=30).code()
            faults = ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED")
            assert code.name not in faults, (rpc, data[:500], code)
            seen[code.name] += 1
    return seen


async def test_bad_input_is_refused_and_costs_no_memory(
    app: wherry.App, served: Served, calls: int
) -> None:
    """API-06: bad JSON, equal keys, wrong types, huge numbers, what is missing or unknown."""
    places = await some_places(app)

    async def flood(n: int, seed: int) -> list[Any]:
        doors = (flood_http, flood_grpc)
        each = max(1, n // CALLERS)
        return await asyncio.gather(
            *(door(served, places, each, seed=seed + i) for door in doors for i in range(CALLERS))
        )

    await flood(calls // 2, SEED)
    before = served.resident_kib()
    seen = await flood(calls, SEED + 1000)
    after = served.resident_kib()

    total: Counter[Any] = sum(seen, Counter())
    print(f"{total.total():,} calls: {dict(total)}; resident {before:,} to {after:,} KiB")
    await answers(served)
    quiet(served)
    assert after < before + GROWTH_KIB
    # It was no flood of one and the same refusal.
    assert {200, 201, 400, 404, 405, 415} <= set(total)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= set(total)
