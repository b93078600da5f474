"""TLS over HTTP: who is let in, and certificates that change while the door is open."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.server.issuer import Issuer
from wherry.errors import ConfigError
from wherry.server.auth import Authenticator, Polls
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service
from wherry.server.tls import TLSFiles


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


@pytest.fixture
async def opened(
    service: Service, authenticator: Authenticator
) -> AsyncIterator[Callable[[TLSFiles], Any]]:
    """Open a door with TLS; it is closed afterwards."""
    doors: list[HttpDoor] = []

    async def opened(files: TLSFiles) -> int:
        settings = HttpSettings(address="localhost:0", tls=files, is_open=True)
        door = HttpDoor(service, authenticator, Polls(), settings)
        port = await door.start()
        doors.append(door)
        return port

    yield opened
    for door in doors:
        await door.stop(0.2)


def trusting(ca: trustme.CA, *, me: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if me is not None:
        me.configure_cert(context)
    return context


async def served(port: int, context: ssl.SSLContext | None) -> bool:
    """Say whether a new connection is served."""
    scheme = "http" if context is None else "https"
    verify: ssl.SSLContext | bool = True if context is None else context
    try:
        async with httpx.AsyncClient(verify=verify, trust_env=False) as client:
            answer = await client.get(f"{scheme}://localhost:{port}/api/v1/server")
    except httpx.TransportError:
        return False
    assert answer.status_code == 200
    return True


async def test_a_client_that_never_finishes_its_handshake_is_gone_with_the_door(
    issuer: Issuer, service: Service, authenticator: Authenticator
) -> None:
    settings = HttpSettings(address="localhost:0", tls=issuer.files, is_open=True)
    door = HttpDoor(service, authenticator, Polls(), settings)
    port = await door.start()
    silent = [await asyncio.open_connection("localhost", port) for _ in range(2)]
    # A record that says that a handshake of 512 bytes comes, and then nothing.
    silent[1][1].write(b"\x16\x03\x01\x02\x00")
    # Accepted in order: who is served came after them.
    assert await served(port, trusting(issuer.ca))

    await door.stop(0.1)

    async with asyncio.timeout(20):
        ends = [await reader.read() for reader, _ in silent]
    assert ends == [b"", b""]
    for _, writer in silent:
        writer.close()


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
    us, them = ours.issue_cert("worker"), theirs.issue_cert("worker")

    assert await served(port, trusting(issuer.ca, me=us))
    assert not await served(port, trusting(issuer.ca, me=them))
    assert not await served(port, trusting(issuer.ca))

    clients.write_bytes(theirs.cert_pem.bytes())

    assert await served(port, trusting(issuer.ca, me=them))
    assert not await served(port, trusting(issuer.ca, me=us))
    assert not await served(port, trusting(issuer.ca))


async def test_a_new_certificate_serves_new_connections(issuer: Issuer, opened: Any) -> None:
    old = issuer.ca
    port = await opened(issuer.files)
    address = f"https://localhost:{port}/api/v1/server"
    async with httpx.AsyncClient(verify=trusting(old), trust_env=False) as client:
        await client.get(address)

        issuer.renew()

        assert await served(port, trusting(issuer.ca))
        assert not await served(port, trusting(old))
        # Who is connected stays so.
        assert (await client.get(address)).status_code == 200


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

    assert await served(port, trusting(new))


async def test_files_that_vanish_leave_what_they_were(issuer: Issuer, opened: Any) -> None:
    port = await opened(issuer.files)

    issuer.files.key.unlink()

    assert await served(port, trusting(issuer.ca))


@pytest.mark.parametrize("broken", ["nothing", "rubbish", "no_ca"])
async def test_files_that_cannot_serve_are_an_error_at_the_start(
    issuer: Issuer, opened: Any, tmp_path: Path, broken: str
) -> None:
    files = issuer.files
    match broken:
        case "nothing":
            files.certificate.unlink()
        case "rubbish":
            files.certificate.write_text("-----BEGIN CERTIFICATE-----\nno\n")
        case _:
            (tmp_path / "ca.pem").write_text("")
            files = TLSFiles(
                certificate=files.certificate, key=files.key, client_ca=tmp_path / "ca.pem"
            )

    with pytest.raises(ConfigError, match="TLS cannot be served"):
        await opened(files)
