"""Workers and servers do not start on a database that would lose tasks, unless somebody says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.doctor.pooler import Pooler
from wherry.config import ServerSettings
from wherry.doctor.finding import Verdict
from wherry.doctor.guard import require_fit, require_safe
from wherry.doctor.server import JUDGES, Server, is_hopeless
from wherry.migrations import migrate
from wherry.server.run import serve

SAFE = Server(
    version_num=160004,
    version="16.4",
    fsync="on",
    full_page_writes="on",
    synchronous_commit="on",
    encoding="UTF8",
    is_standby=False,
    is_read_only=False,
    is_allowed=False,
    pid=1,
)
PRIVATE = ServerSettings(grpc_address=None, http_address="127.0.0.1:0")


@pytest.fixture
def unsafe(dsn: str) -> str:
    """The tests' server, which syncs nothing, as if it did not say so itself."""
    return make_conninfo(dsn, options="-c wherry.allow_unsafe_database=off")


def verdicts(server: Server) -> dict[str, Verdict]:
    judged = {name: judge(server).verdict for name, judge in JUDGES.items()}
    return {name: verdict for name, verdict in judged.items() if verdict is not Verdict.OK}


async def work(dsn: str, *, allow: bool = False) -> wherry.Summary:
    async with wherry.App(dsn) as app:
        app.task(name="t")(_nothing)
        return await app.awork(until_empty=True, allow_unsafe_database=allow)


async def _nothing() -> None:
    pass


async def test_a_worker_refuses_a_server_that_syncs_nothing(unsafe: str) -> None:
    with pytest.raises(wherry.UnfitDatabase) as caught:
        await work(unsafe)

    said, where = str(caught.value), conninfo_to_dict(unsafe)
    assert "fsync and full_page_writes are off" in said
    assert "set fsync = on" in said
    assert f"database {where['dbname']!r} at {where['host']}" in said
    assert "--allow-unsafe-database" in said


async def test_a_server_refuses_it_too(unsafe: str) -> None:
    async with wherry.App(unsafe) as app:
        with pytest.raises(wherry.UnfitDatabase, match="fsync and full_page_writes are off"):
            await serve(app, PRIVATE)


async def test_who_allows_it_is_warned(unsafe: str, caplog: pytest.LogCaptureFixture) -> None:
    summary = await work(unsafe, allow=True)

    assert summary.exit_code == 0
    assert "THIS DATABASE IS UNSAFE, and somebody allowed it" in caplog.text

    async with wherry.App(unsafe) as app:
        up = asyncio.Event()
        serving = asyncio.create_task(
            serve(app, replace(PRIVATE, allow_unsafe_database=True), ready=lambda _: up.set())
        )
        await asyncio.wait_for(up.wait(), 20)
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_server_that_is_unsafe_on_purpose_says_so_itself(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wherry.doctor")

    assert (await work(dsn)).exit_code == 0

    [record] = [record for record in caplog.records if record.name == "wherry.doctor"]
    assert "fsync and full_page_writes are off" in record.getMessage()
    assert record.levelname == "INFO"


async def test_a_read_only_server_is_no_place_to_start(unsafe: str) -> None:
    """MIG-13: what, where, and what to do; of several hosts all may be read-only."""
    options = f"{conninfo_to_dict(unsafe)['options']} -c default_transaction_read_only=on"
    read_only = make_conninfo(unsafe, options=options)
    host = conninfo_to_dict(unsafe)["host"]

    for dsn in (read_only, make_conninfo(read_only, host=f"{host},{host}")):
        with pytest.raises(wherry.ReadOnly) as caught:
            await work(dsn)

        assert "connected to a read-only server" in str(caught.value)
        assert f" at {host}:" in str(caught.value)
        assert "target_session_attrs=read-write" in str(caught.value)


def test_of_several_hosts_one_that_answers_is_looked_at(unsafe: str) -> None:
    host = conninfo_to_dict(unsafe)["host"]

    require_fit(make_conninfo(unsafe, host=f"/nowhere,{host}"), schema="wherry", allow_unsafe=True)


def test_a_schema_that_is_not_there_is_told_from_a_server_that_is_unfit(unsafe: str) -> None:
    with pytest.raises(wherry.UnfitDatabase):
        require_fit(unsafe, schema="nothing", allow_unsafe=False)
    with pytest.raises(wherry.SchemaMissing):
        require_fit(unsafe, schema="nothing", allow_unsafe=True)


@pytest.mark.parametrize(("encoding", "can_be_allowed"), [("LATIN1", True), ("SQL_ASCII", False)])
def test_an_encoding_that_lacks_characters_is_refused(
    unsafe: str, encoding: str, can_be_allowed: bool
) -> None:
    name = sql.Identifier(f"{conninfo_to_dict(unsafe)['dbname']}_{encoding.lower()}")
    with psycopg.connect(unsafe, autocommit=True) as admin:
        provider = "locale_provider libc" if admin.info.server_version >= 150000 else ""
        plain = sql.SQL("lc_collate 'C' lc_ctype 'C' {}").format(sql.SQL(provider))
        admin.execute(
            sql.SQL("create database {} encoding {} template template0 {}").format(
                name, sql.Literal(encoding), plain
            )
        )
        other = make_conninfo(unsafe, dbname=name.as_string()[1:-1])
        try:
            migrate(other)
            with pytest.raises(wherry.UnfitDatabase, match=f"encoding is {encoding}"):
                require_safe(other, schema="wherry", allow_unsafe=False)
            if can_be_allowed:
                require_safe(other, schema="wherry", allow_unsafe=True)
            else:
                with pytest.raises(wherry.UnfitDatabase):
                    require_safe(other, schema="wherry", allow_unsafe=True)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(name))


def test_what_a_server_can_lack_is_judged_one_by_one() -> None:
    assert verdicts(SAFE) == {}
    assert verdicts(replace(SAFE, fsync="off")) == {"durability": Verdict.PROBLEM}
    assert verdicts(replace(SAFE, full_page_writes="off")) == {"durability": Verdict.PROBLEM}
    assert verdicts(replace(SAFE, fsync="off", is_allowed=True)) == {"durability": Verdict.WARNING}
    assert verdicts(replace(SAFE, synchronous_commit="off")) == {"durability": Verdict.WARNING}
    assert verdicts(replace(SAFE, version_num=130015)) == {"version": Verdict.PROBLEM}
    assert verdicts(replace(SAFE, version_num=190000)) == {"version": Verdict.WARNING}
    assert verdicts(replace(SAFE, is_standby=True)) == {"writing": Verdict.PROBLEM}
    assert verdicts(replace(SAFE, encoding="EUC_JP")) == {"encoding": Verdict.PROBLEM}


@pytest.mark.parametrize(("sessions", "waits"), [(1, False), (1, True), (100, False)])
def test_a_pooler_that_shares_sessions_is_told_of_at_the_start(
    dsn: str, caplog: pytest.LogCaptureFixture, sessions: int, waits: bool
) -> None:
    """PGB-01, PGB-03: LISTEN through it hears nothing, so what to do instead is said."""
    with Pooler(dsn, most=sessions, waits=waits) as pooler:
        require_fit(pooler.pooled, schema="wherry", allow_unsafe=False)

    assert "notifications never arrive" in caplog.text
    assert "--no-listen" in caplog.text
    caplog.clear()
    require_fit(dsn, schema="wherry", allow_unsafe=False)
    assert "notifications" not in caplog.text


def test_a_server_that_is_too_old_cannot_be_allowed() -> None:
    assert is_hopeless(replace(SAFE, version_num=130015, is_allowed=True))
    assert not is_hopeless(replace(SAFE, version_num=140000, fsync="off", encoding="LATIN1"))
