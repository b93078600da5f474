"""What an App and a worker are told where they are set up so that no server can answer."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest
import trustme

import wherry
from tests.conformance.test_set_up import guarded
from tests.facts import await_for
from wherry.commands.tokens import CreateToken
from wherry.domain.token import draw_token
from wherry.server.tls import TLSFiles
from wherry.transport.patience import Patience


def issued(ca: trustme.CA, host: str, directory: Path) -> TLSFiles:
    """Return the files of a server whose certificate is for *host*."""
    made = ca.issue_cert(host)
    made.private_key_pem.write_to_path(str(directory / f"{host}.key"))
    made.cert_chain_pems[0].write_to_path(str(directory / f"{host}.crt"))
    ca.cert_pem.write_to_path(str(directory / "ca.pem"))
    return TLSFiles(certificate=directory / f"{host}.crt", key=directory / f"{host}.key")


async def refusal(address: str) -> str:
    async with wherry.App(address, pool_timeout=0.5) as app:
        with pytest.raises(wherry.Unavailable) as refused:
            await app.aenqueue("t")
    return str(refused.value)


async def test_a_tls_mistake_is_told_with_the_address_and_what_to_do(
    dsn: str, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    async with guarded(dsn, issued(trustme.CA(), "localhost", tmp_path)) as port:
        unknown = await refusal(f"grpcs://localhost:{port}")
        other = await refusal(f"grpcs://localhost:{port}?ca={tmp_path}/other.pem")
        plain = await refusal(f"grpc://localhost:{port}")
    async with guarded(dsn, issued(trustme.CA(), "elsewhere", tmp_path)) as port:
        misnamed = await refusal(f"grpcs://localhost:{port}?ca={tmp_path}/ca.pem")
    async with guarded(dsn) as port:
        not_tls = await refusal(f"grpcs://localhost:{port}")

    assert "the server at grpcs://localhost:" in unknown
    assert "?ca=FILE" in unknown
    assert "file of ca=" in other
    assert "the server at grpc://localhost:" in plain
    assert "grpcs://" in plain
    assert "not for 'localhost'" in misnamed
    assert "speak no TLS" in not_tls


async def test_a_server_that_is_just_away_brings_no_advice() -> None:
    text = await refusal("grpcs://localhost:1")

    assert "the server at grpcs://localhost:1 did not answer" in text
    assert text.endswith("Connection refused")


async def test_a_worker_says_what_is_wrong_with_tls_and_goes_on_waiting(
    dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "wherry.worker")
    files = issued(trustme.CA(), "localhost", tmp_path)
    async with guarded(dsn, files) as port, wherry.App(f"grpcs://localhost:{port}") as app:
        app.task(name="t")(asyncio.Event().wait)
        working = asyncio.create_task(app.awork())
        await await_for(
            lambda: any(
                "waiting for the server" in text and "?ca=FILE" in text for text in caplog.messages
            )
        )
        assert not working.done()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def test_advice_that_comes_late_is_told_at_once_and_only_once_a_minute() -> None:
    patience = Patience()

    told = [patience.may_complain(about=about) for about in (None, None, "a", "b", "a", None)]

    assert told == [True, False, True, True, False, False]


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "none was sent"),
        ("wherry_nobody_knows-it", "from $WHERRY_TOKEN, is none"),
        (f"wherry_{'a' * 12}_{'b' * 52}", "one was sent, from $WHERRY_TOKEN"),
    ],
)
async def test_who_is_not_let_in_learns_what_was_sent_and_from_where(
    dsn: str, monkeypatch: pytest.MonkeyPatch, token: str, said: str
) -> None:
    monkeypatch.setenv("WHERRY_TOKEN", token)
    async with guarded(dsn) as port, wherry.App(f"grpc://localhost:{port}") as app:
        with pytest.raises(wherry.errors.Unauthenticated, match="token") as refused:
            await app.aenqueue("t")

    assert said in str(refused.value)
    assert not token or token not in str(refused.value)


async def test_a_tokens_file_is_named_where_its_token_is_refused(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    async with guarded(dsn) as port:
        address = f"grpc://localhost:{port}?token_file={tmp_path}/token"
        async with wherry.App(address) as app:
            with pytest.raises(wherry.errors.Unauthenticated) as refused:
                await app.aenqueue("t")

    assert f"from {tmp_path}/token, is none: tokens are wherry_<id>_<secret>" in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_grpc_writes_nothing_to_stderr_by_itself(dsn: str, tmp_path: Path) -> None:
    program = (
        "import sys, wherry\n"
        "with wherry.App(sys.argv[1], pool_timeout=0.2) as app:\n"
        "    try:\n"
        "        app.enqueue('t')\n"
        "    except wherry.Unavailable as error:\n"
        "        print(error)\n"
    )
    async with guarded(dsn, issued(trustme.CA(), "localhost", tmp_path)) as port:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, f"grpcs://localhost:{port}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"},
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)

    assert b"?ca=FILE" in out
    assert err == b""


async def test_a_worker_that_may_not_work_learns_for_which_queues(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw_token()
    made = CreateToken(
        id=drawn.id, name="r", hash=drawn.hash, rights=("read",), queues=("*",), created_by="me"
    )
    async with wherry.App(dsn) as database:
        await database.acarry(made)
    monkeypatch.setenv("WHERRY_TOKEN", drawn.reveal())
    async with guarded(dsn) as port, wherry.App(f"grpc://localhost:{port}") as app:
        app.task(name="t")(asyncio.Event().wait)
        with pytest.raises(wherry.errors.PermissionDenied) as refused:
            await app.awork(queues=["a", "b"])

    assert "the right work is needed for this, and the token has: read" in str(refused.value)
    assert str(refused.value).endswith("this worker is for the queues a, b")
