"""A whole server that asks for tokens, in the test's process, and callers at both of its doors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import httpx
import pytest

import wherry
from tests.security.doors import Calls, GrpcCalls, HttpCalls
from wherry.config import ServerSettings
from wherry.server.run import Server

ANYWHERE = "127.0.0.1:0"


@pytest.fixture
def settings() -> ServerSettings:
    """What the server is told; folders and modules may say otherwise."""
    return ServerSettings(grpc_address=ANYWHERE, http_address=ANYWHERE, auth=True)


@pytest.fixture
async def server(app: wherry.App, settings: ServerSettings) -> AsyncIterator[Server]:
    """A server with both doors."""
    async with Server(app, settings) as made:
        yield made


@pytest.fixture
async def over_grpc(server: Server) -> AsyncIterator[GrpcCalls]:
    """Calls through the gRPC door."""
    async with grpc.aio.insecure_channel(server.bound.grpc_url or "") as channel:
        yield GrpcCalls(channel)


@pytest.fixture
async def over_http(server: Server) -> AsyncIterator[HttpCalls]:
    """Calls through the HTTP door."""
    base = server.bound.http_url or ""
    async with httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as client:
        yield HttpCalls(client)


@pytest.fixture
async def doors(over_grpc: GrpcCalls, over_http: HttpCalls) -> list[Calls]:
    """Both doors."""
    return [over_grpc, over_http]


@pytest.fixture(params=["grpc", "http"])
async def call(request: pytest.FixtureRequest, over_grpc: GrpcCalls, over_http: HttpCalls) -> Calls:
    """One door after the other."""
    return over_grpc if request.param == "grpc" else over_http
