"""Addresses, tokens, TLS and loops: what an App needs to reach a server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme

import wherry
from tests.conformance.programs import CALLS, program
from wherry.domain.state import State
from wherry.dsn import read_server
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.running import running_service
from wherry.server.tls import TLSFiles

# ── imports ──


def test_the_library_does_not_import_grpc() -> None:
    text = "import sys, wherry; assert not {'grpc', 'google.protobuf'} & set(sys.modules)"

    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_missing_extra_is_told() -> None:
    text = """
import sys
sys.modules["grpc"] = None
import wherry
for call in (lambda app: app.enqueue("t"), lambda app: app.work()):
    app = wherry.App("grpc://h:1")
    app.task(name="t")(lambda: None)
    try:
        call(app)
    except wherry.ConfigError as error:
        assert "pip install 'wherry[grpc]'" in str(error), error
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


# ── loops ──


async def test_each_loop_has_a_channel_of_its_own_and_nothing_is_left(address: str) -> None:
    text = (
        CALLS
        + """
async def once():
    id = (await app.aenqueue("t")).id
    await app.aclose()
    return id

print([asyncio.run(once()) for _ in range(3)], app.enqueue("t").id)
"""
    )
    assert await program(text, address) == "[1, 2, 3] 4\n"


async def test_an_app_that_nobody_closed_ends_with_its_process(address: str) -> None:
    text = (
        CALLS
        + """
async def once():
    return (await app.aenqueue("t")).id

print(app.enqueue("t").id, asyncio.run(once()))
"""
    )
    assert await program(text, address) == "1 2\n"


async def test_a_channel_that_was_closed_is_opened_again(remote: wherry.App) -> None:
    first = await remote.aenqueue("t")
    await remote.aclose()
    second = await remote.aenqueue("t")

    def twice() -> list[int]:
        ids = [remote.enqueue("t").id]
        remote.close()
        return [*ids, remote.enqueue("t").id]

    ids = [first.id, second.id, *await asyncio.to_thread(twice)]

    assert ids == list(range(first.id, first.id + 4))


# ── what needs a database ──


async def test_a_transaction_of_the_callers_own_works_as_ever(
    remote: wherry.App, dsn: str, database: wherry.App
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        kept = await remote.aenqueue("t", tx=connection)
        await connection.commit()
        await remote.aenqueue("t", tx=connection)
        await connection.rollback()
        [lease] = await remote.alease(worker="w")
        await remote.acomplete(lease, result="in it", tx=connection)
        await connection.commit()
        with pytest.raises(wherry.LeaseLost):
            await remote.acomplete(lease, tx=connection)

    [task] = (await database.alist_tasks()).tasks
    assert (task.id, task.state, task.result) == (kept.id, State.SUCCEEDED, "in it")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda app: app.areap(), "^reap is the server's own work"),
        (lambda app: app.amigrate(), "server"),
    ],
    ids=["reap", "migrate"],
)
async def test_what_only_a_database_can_do_says_so(
    remote: wherry.App, call: Callable[[wherry.App], Any], said: str
) -> None:
    with pytest.raises(wherry.ConfigError, match=said):
        await call(remote)


# ── tokens ──


@asynccontextmanager
async def guarded(dsn: str, tls: TLSFiles | None = None) -> AsyncIterator[int]:
    """Run a server, which asks for tokens unless it has TLS; gives its port."""
    async with wherry.App(dsn) as behind, running_service(behind) as running:
        authenticator = Authenticator(behind, required=tls is None)
        door = GrpcDoor(
            running.service,
            authenticator,
            Polls(),
            GrpcSettings(address="localhost:0", tls=tls),
        )
        await door.start()
        try:
            yield door.port
        finally:
            running.desk.drain()
            await door.stop(0.5)
            await authenticator.aclose()


async def test_a_token_is_needed_where_it_is_asked_for(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded(dsn) as port:
        for token in ("", "wherry_nobody_knows-it"):
            monkeypatch.setenv("WHERRY_TOKEN", token)
            async with wherry.App(f"grpc://localhost:{port}") as app:
                with pytest.raises(wherry.errors.Unauthenticated) as refused:
                    await app.aenqueue("t")
                with pytest.raises(wherry.errors.Unauthenticated):
                    await asyncio.to_thread(partial(app.enqueue, "t"))
                assert "nobody_knows-it" not in str(refused.value)

        for content in ("", "two words", "zwölf", "x" * 5000):
            (tmp_path / "token").write_text(content)
            dsn_ = f"grpc://localhost:{port}?token_file={tmp_path / 'token'}"
            async with wherry.App(dsn_) as app:
                with pytest.raises(wherry.ConfigError, match="holds no token") as bad:
                    await app.aenqueue("t")
                assert not content or content not in str(bad.value)
        async with wherry.App(f"grpc://localhost:{port}?token_file=/no/such/file") as app:
            with pytest.raises(wherry.ConfigError, match="cannot be read"):
                await app.aenqueue("t")


# ── TLS ──


async def test_tls_is_spoken_and_both_sides_can_be_checked(dsn: str, tmp_path: Path) -> None:
    ca, other = trustme.CA(), trustme.CA()
    for name, made in (("ca", ca), ("other", other)):
        made.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    for name, by in (("server", ca), ("me", ca), ("stranger", other)):
        issued = by.issue_cert("localhost")
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.crt"))
    files = TLSFiles(
        certificate=tmp_path / "server.crt",
        key=tmp_path / "server.key",
        client_ca=tmp_path / "ca.pem",
    )

    def who(name: str) -> str:
        return f"&cert={tmp_path}/{name}.crt&key={tmp_path}/{name}.key"

    async with guarded(dsn, files) as port:
        base = f"grpcs://localhost:{port}?ca={tmp_path}"
        async with wherry.App(f"{base}/ca.pem{who('me')}") as app:
            assert (await app.aenqueue("t")).created
            assert (await asyncio.to_thread(lambda: app.enqueue("t"))).created
        for dsn_ in (
            f"{base}/other.pem{who('me')}",
            f"{base}/ca.pem{who('stranger')}",
            f"{base}/ca.pem",
            f"grpc://localhost:{port}",
        ):
            async with wherry.App(dsn_, pool_timeout=0.2) as app:
                with pytest.raises(wherry.Unavailable):
                    await app.aenqueue("t")


# ── addresses ──


async def test_of_several_addresses_one_that_is_away_is_passed_over(address: str) -> None:
    # A name with two addresses; the server listens on that of IPv4 only.
    async with wherry.App(f"grpc://localhost:{read_server(address).port}") as app:
        for _ in range(20):
            assert (await app.aenqueue("t")).created


async def test_the_command_line_takes_a_servers_address_too(address: str) -> None:
    async def wherry_(*arguments: str) -> str:
        command = (sys.executable, "-m", "wherry", *arguments, "--dsn", address)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, (arguments, err.decode())
        return out.decode()

    await wherry_("enqueue", "mail.send", '{"to": "ada"}', "--queue", "mail")
    assert "mail.send" in await wherry_("tasks", "list", "--json")
    assert '"ada"' in await wherry_("tasks", "show", "1", "--json")
    assert "mail" in await wherry_("queues", "list")
    await wherry_("queues", "pause", "mail")
    await wherry_("workers", "list")
    await wherry_("tasks", "cancel", "1")


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("grpc://h", "grpc://h:50051"),
        ("grpc://h:1", "grpc://h:1"),
        ("grpcs://h.example:443/", "grpcs://h.example:443"),
        ("grpc://[::1]:7", "grpc://[::1]:7"),
        ("grpcs://h:1?ca=/a%20b&token_file=x", "grpcs://h:1"),
    ],
)
def test_addresses_are_read(dsn: str, shown: str) -> None:
    assert str(read_server(dsn)) == shown


@pytest.mark.parametrize(
    "dsn",
    [
        "grpc://",
        "grpc://:1",
        "grpc://h:x",
        "grpc://h:99999",
        "grpc://hunter2@h:1",
        "grpc://ada:hunter2@h:1",
        "grpc://h:1/hunter2",
        "grpc://h:1#hunter2",
        "grpc://h:1?token=hunter2",
        "grpc://h:1?token_file=",
        "grpc://h:1?token_file=a&token_file=b",
        "grpcs://h:1?cert=a",
        "grpc://h:1?ca=a",
        "grpc://[::1:1",
        "grpc://a b:1",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(dsn: str) -> None:
    with pytest.raises(wherry.ConfigError) as refused:
        wherry.App(dsn).enqueue("t")

    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
