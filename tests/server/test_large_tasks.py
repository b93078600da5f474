"""Large tasks: the desk neither leases nor hands out more bytes at a time than it can bear."""

from __future__ import annotations

import asyncio

import pytest

import wherry
from tests.server.test_desk import LEASE, poll
from tests.statements import count_statements
from wherry.config import LEASE_LIMIT_BYTES
from wherry.server.caller import ANYBODY
from wherry.server.service import Service


@pytest.mark.parametrize("wait", [0, 30])
async def test_an_answer_holds_no_more_bytes_than_a_server_can_bear(
    service: Service, app: wherry.App, wait: float
) -> None:
    text = "x" * 1_000_000
    for _ in range(4):
        await app.aenqueue_many([{"type": "t", "payload": {"text": text}}] * 12)

    first, second = [
        (await service.lease(ANYBODY, worker="w", max_tasks=1000, wait=wait)).leases
        for _ in range(2)
    ]

    assert len(first) == LEASE_LIMIT_BYTES // 1_000_000 + 1
    assert len(first) + len(second) == 48


async def test_what_one_statement_leaves_out_for_its_size_is_in_the_next(
    service: Service, app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x" * 1_000_000
    for _ in range(4):
        await app.aenqueue_many([{"type": "t", "payload": {"text": text}}] * 10)
    sent = count_statements(monkeypatch)

    leases = await asyncio.gather(*(poll(service, n, max_tasks=20, wait=0) for n in range(3)))

    assert sum(len(each) for each in leases) == 40
    assert sent.count(LEASE) > 1
