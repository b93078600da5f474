"""TLS: who is let in, and certificates that change while the door is open."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme

from tests.server.grpc.asking import becomes
from tests.server.issuer import Issuer
from wherry.errors import ConfigError
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.service import Service
from wherry.server.tls import TLSFiles
from wherry.wire.v1 import operators_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


@pytest.fixture
async def opened(
    service: Service, authenticator: Authenticator
) -> AsyncIterator[Callable[[TLSFiles], Any]]:
    """Open a door with TLS; it is closed afterwards."""
    doors: list[GrpcDoor] = []

    async def opened(files: TLSFiles) -> int:
        settings = GrpcSettings(address="localhost:0", tls=files)
        door = GrpcDoor(service, authenticator, Polls(), settings)
        port = await door.start()
        doors.append(door)
        return port

    yield opened
    for door in doors:
        await door.stop(0.2)


def trusting(ca: trustme.CA, *, me: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
    if me is None:
        return grpc.ssl_channel_credentials(ca.cert_pem.bytes())
    chain = b"".join(part.bytes() for part in me.cert_chain_pems)
    return grpc.ssl_channel_credentials(ca.cert_pem.bytes(), me.private_key_pem.bytes(), chain)


async def served(port: int, credentials: grpc.ChannelCredentials | None) -> bool:
    """Say whether a new connection is served."""
    address = f"localhost:{port}"
    # Without it a channel may be given the connection of another one.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.aio.insecure_channel(address, options=options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options=options)
    )
    async with channel:
        stub: Any = TaskQueueStub(channel)
        code = await stub.GetServer(operators_pb2.GetServerRequest(), timeout=5).code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
    return bool(code is grpc.StatusCode.OK)


async def test_only_who_trusts_the_certificate_is_served(issuer: Issuer, opened: Any) -> None:
    port = await opened(issuer.files)

    assert await served(port, trusting(issuer.ca))
    assert not await served(port, trusting(trustme.CA()))
    assert not await served(port, None)


async def test_with_an_authority_for_clients_strangers_are_sent_away(
    issuer: Issuer, opened: Any, tmp_path: Path
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    clients = tmp_path / "clients.pem"
    clients.write_bytes(ours.cert_pem.bytes())
    files = TLSFiles(certificate=issuer.files.certificate, key=issuer.files.key, client_ca=clients)

    port = await opened(files)

    assert await served(port, trusting(issuer.ca, me=ours.issue_cert("worker")))
    assert not await served(port, trusting(issuer.ca, me=theirs.issue_cert("worker")))
    assert not await served(port, trusting(issuer.ca))


async def test_a_new_certificate_serves_new_connections(issuer: Issuer, opened: Any) -> None:
    old = issuer.ca
    port = await opened(issuer.files)
    async with grpc.aio.secure_channel(f"localhost:{port}", trusting(old)) as channel:
        stub: Any = TaskQueueStub(channel)
        await stub.GetServer(operators_pb2.GetServerRequest())

        issuer.renew()

        assert await served(port, trusting(issuer.ca))
        assert not await served(port, trusting(old))
        # Who is connected stays so.
        await stub.GetServer(operators_pb2.GetServerRequest())


async def test_a_broken_new_certificate_leaves_the_old_one_and_is_told_once(
    issuer: Issuer, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    old = issuer.ca
    port = await opened(issuer.files)

    issuer.files.certificate.write_text("half of it")

    with caplog.at_level(logging.ERROR, logger="wherry.server"):
        for _ in range(3):
            assert await served(port, trusting(old))
    said = [record for record in caplog.records if "the old ones go on" in record.message]
    assert len(said) == 1

    issuer.renew()
    assert await served(port, trusting(issuer.ca))


async def test_a_key_that_does_not_fit_yet_is_waited_for(issuer: Issuer, opened: Any) -> None:
    old = issuer.ca
    port = await opened(issuer.files)
    key = issuer.files.key.read_bytes()
    new = issuer.renew()
    new_key = issuer.files.key.read_bytes()
    issuer.files.key.write_bytes(key)
    assert await served(port, trusting(old))

    issuer.files.key.write_bytes(new_key)

    async def new_one_serves() -> bool:
        return await served(port, trusting(new))

    await becomes(new_one_serves)


async def test_files_that_vanish_leave_what_they_were(issuer: Issuer, opened: Any) -> None:
    port = await opened(issuer.files)

    issuer.files.key.unlink()

    assert await served(port, trusting(issuer.ca))


async def test_touched_files_change_nothing(
    issuer: Issuer, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = await opened(issuer.files)

    with caplog.at_level(logging.INFO, logger="wherry.server"):
        os.utime(issuer.files.certificate, (1, 1))
        assert await served(port, trusting(issuer.ca))

    assert "serving the new certificate" not in caplog.text


@pytest.mark.parametrize("broken", ["nothing", "rubbish", "locked", "no_ca"])
async def test_files_that_cannot_serve_are_an_error_at_the_start(
    issuer: Issuer, opened: Any, tmp_path: Path, broken: str
) -> None:
    files = issuer.files
    match broken:
        case "nothing":
            files.certificate.unlink()
        case "rubbish":
            files.certificate.write_text("-----BEGIN CERTIFICATE-----\nno\n")
        case "locked":
            # Nobody is asked for its password.
            files.key.write_text(
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
                "DEK-Info: AES-128-CBC,00000000000000000000000000000000\n\nAAAA\n"
                "-----END RSA PRIVATE KEY-----\n"
            )
        case _:
            (tmp_path / "ca.pem").write_text("")
            files = TLSFiles(
                certificate=files.certificate, key=files.key, client_ca=tmp_path / "ca.pem"
            )

    with pytest.raises(ConfigError, match="TLS cannot be served"):
        await opened(files)
