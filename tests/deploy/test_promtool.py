"""Prometheus's own tool reads what a real server and worker tell, and runs the rules' tests."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry, generate_latest

import wherry
from tests.worker.support import drained
from wherry.config import ServerSettings
from wherry.integrations.prometheus import Collector
from wherry.server.run import Server

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"


def promtool(*arguments: str, stdin: bytes = b"") -> str:
    """Return what promtool said; it must be content."""
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=FOLDER,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    return said


def test_the_rules_are_rules() -> None:
    assert "18 rules found" in promtool("check", "rules", "wherry.rules.yml")


def test_alerts_come_when_they_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", "wherry.rules.test.yml")


async def test_what_a_server_tells_is_well_formed(app: wherry.App) -> None:
    await app.aenqueue("t")
    here = ServerSettings(grpc_address=None, http_address="127.0.0.1:0")
    async with (
        Server(app, here) as server,
        httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client,
    ):
        answer = await client.get("/metrics")

    assert b"wherry_database_up 1.0" in answer.content
    assert await asyncio.to_thread(promtool, "check", "metrics", stdin=answer.content) == ""


async def test_what_a_worker_tells_is_well_formed(app: wherry.App) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(app))

    @app.task(name="t")
    async def t() -> None: ...

    await app.aenqueue("t")
    await drained(app)
    told = generate_latest(registry)

    assert b"wherry_worker_outcomes_total" in told
    assert await asyncio.to_thread(promtool, "check", "metrics", stdin=told) == ""
