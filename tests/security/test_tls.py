"""TLS on a whole server: both doors speak it, and who signs clients can be changed while they do.

What each door does with its own certificate is in tests/server/grpc/test_tls.py and
tests/server/http/test_tls.py.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
import trustme

import wherry
from tests.security.places import bearer, create
from wherry.config import ServerSettings
from wherry.server.run import Server

ANYWHERE = "localhost:0"


@dataclass(frozen=True)
class Authorities:
    """Who has signed the server, and the file with who signs clients."""

    server: trustme.CA
    clients: Path


@pytest.fixture
def authorities(tmp_path: Path) -> Authorities:
    made = trustme.CA()
    issued = made.issue_cert("localhost")
    (tmp_path / "cert.pem").write_bytes(b"".join(c.bytes() for c in issued.cert_chain_pems))
    (tmp_path / "key.pem").write_bytes(issued.private_key_pem.bytes())
    return Authorities(made, tmp_path / "clients.pem")


@pytest.fixture
async def server(
    app: wherry.App, authorities: Authorities, tmp_path: Path
) -> AsyncIterator[tuple[Server, trustme.CA]]:
    """A server for clients with a certificate, and who signs these."""
    ours = trustme.CA()
    authorities.clients.write_bytes(ours.cert_pem.bytes())
    settings = ServerSettings(
        grpc_address=ANYWHERE,
        http_address=ANYWHERE,
        auth=True,
        tls_cert=tmp_path / "cert.pem",
        tls_key=tmp_path / "key.pem",
        tls_client_ca=authorities.clients,
    )
    async with Server(app, settings) as made:
        yield made, ours


async def over_grpc(
    server: Server, ca: trustme.CA, me: trustme.LeafCert | None, *shown: str
) -> str:
    chain = None if me is None else b"".join(part.bytes() for part in me.cert_chain_pems)
    key = None if me is None else me.private_key_pem.bytes()
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes(), key, chain)
    # Without it a channel may be given the connection of another one.
    options = [("grpc.use_local_subchannel_pool", 1)]
    address = server.bound.grpc_url or ""
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        call: Any = channel.unary_unary("/wherry.v1.TaskQueue/GetServer")
        metadata = [("authorization", value) for value in shown]
        return str((await call(b"", timeout=10, metadata=metadata).code()).name)


async def over_http(
    server: Server, ca: trustme.CA, me: trustme.LeafCert | None, *shown: str
) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(context)
    if me is not None:
        me.configure_cert(context)
    headers = [("authorization", value) for value in shown]
    address = f"{server.bound.http_url}/api/v1/server"
    try:
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            status = (await client.get(address, headers=headers)).status_code
    except httpx.TransportError:
        return "UNAVAILABLE"
    return {200: "OK", 401: "UNAUTHENTICATED"}[status]


@pytest.mark.parametrize("call", [over_grpc, over_http])
async def test_a_certificate_lets_in_and_a_token_lets_do(
    server: tuple[Server, trustme.CA], authorities: Authorities, app: wherry.App, call: Any
) -> None:
    serving, ours = server
    me, stranger = ours.issue_cert("worker"), trustme.CA().issue_cert("worker")
    token = bearer(await create(app, "read"))

    assert await call(serving, authorities.server, me, token) == "OK"
    assert await call(serving, authorities.server, me) == "UNAUTHENTICATED"
    # A token is no substitute for a certificate.
    assert await call(serving, authorities.server, None, token) == "UNAVAILABLE"
    assert await call(serving, authorities.server, stranger, token) == "UNAVAILABLE"


@pytest.mark.parametrize("call", [over_grpc, over_http])
async def test_who_signs_clients_is_changed_while_the_door_is_open(
    server: tuple[Server, trustme.CA], authorities: Authorities, app: wherry.App, call: Any
) -> None:
    serving, ours = server
    newer = trustme.CA()
    old, new = ours.issue_cert("worker"), newer.issue_cert("worker")
    token = bearer(await create(app, "read"))
    assert await call(serving, authorities.server, old, token) == "OK"
    assert await call(serving, authorities.server, new, token) == "UNAVAILABLE"

    authorities.clients.write_bytes(newer.cert_pem.bytes())
    # gRPC looks for new files at a handshake, and serves them from the next one on.
    await call(serving, authorities.server, new, token)

    assert await call(serving, authorities.server, new, token) == "OK"
    assert await call(serving, authorities.server, old, token) == "UNAVAILABLE"


async def test_plain_text_is_refused(server: tuple[Server, trustme.CA]) -> None:
    serving, _ = server
    for url in (serving.bound.grpc_url, serving.bound.http_url):
        address = (url or "").removeprefix("https://")
        with pytest.raises(httpx.TransportError):
            async with httpx.AsyncClient(trust_env=False) as client:
                await client.get(f"http://{address}/healthz")
    async with grpc.aio.insecure_channel(serving.bound.grpc_url or "") as channel:
        call: Any = channel.unary_unary("/wherry.v1.TaskQueue/GetServer")
        assert await call(b"", timeout=10).code() is grpc.StatusCode.UNAVAILABLE
