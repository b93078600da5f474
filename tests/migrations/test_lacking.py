"""After an upgrade the owner is told which roles lack rights, and what gives them these."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from tests.migrations.support import Server, user_dsn, value
from wherry import migrations
from wherry.cli import main
from wherry.commands.leases import CompleteTasks, LeaseTasks
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks
from wherry.domain.lease import Reported
from wherry.domain.names import quote_identifier
from wherry.domain.options import Options
from wherry.domain.outcome import Completed
from wherry.migrations import Lacking
from wherry.transport import base

BEFORE = 7
# What the version of that migration granted.
OF_BEFORE = {
    "worker": (
        "grant select on wherry.migration, wherry.settings, wherry.tasks to {role};"
        "grant select, insert, update, delete on wherry.live, wherry.finished, wherry.attempt,"
        " wherry.lease, wherry.key, wherry.worker, wherry.waiting, wherry.paused, wherry.front"
        " to {role};"
        "grant usage on sequence wherry.task_id, wherry.position to {role};"
        "grant execute on function wherry.now(), wherry.enqueue, wherry.make_days,"
        " wherry.drop_past_days to {role}"
    ),
    "enqueuer": (
        "grant select on wherry.migration to {role};"
        "grant select (channel) on wherry.settings to {role};"
        "grant select (queue, expires_at) on wherry.waiting to {role};"
        "grant select (id, queue, run_after), insert (id, position, token, created_at, run_after,"
        " discard_at, timeout_seconds, ttl_seconds, key_ttl_seconds, max_attempts, priority, state,"
        " queue, type, key, tags, headers, retry, payload) on wherry.live to {role};"
        "grant select (id, queue, key_until, keep_until) on wherry.finished to {role};"
        "grant select, insert, update (task_id, stamp, seen_stamp, payload_hash) on wherry.key"
        " to {role};"
        "grant usage on sequence wherry.task_id, wherry.position to {role};"
        "grant execute on function wherry.now(), wherry.enqueue, wherry.check_task to {role}"
    ),
}


@dataclass
class Old:
    """A database from before, with roles that were granted their rights then."""

    dsn: str
    worker: str
    enqueuer: str


@pytest.fixture
def old(server: Server) -> Old:
    dsn = server.make_database()
    made = Old(dsn, server.make_role(), server.make_role())
    migrations.migrate(dsn, up_to=BEFORE)
    with psycopg.connect(dsn, autocommit=True) as owner:
        for kind, text in OF_BEFORE.items():
            role = quote_identifier(getattr(made, kind))
            usage = "grant usage on schema wherry to {role};"
            owner.execute((usage + text).format(role=role).encode())
    return made


def test_who_lacks_rights_is_named_until_they_are_granted(old: Old) -> None:
    migrations.migrate(old.dsn)

    found = migrations.lacking(old.dsn)
    # In the order that was told, as the owner would.
    with psycopg.connect(old.dsn, autocommit=True) as owner:
        for each in found:
            shops = [each.role] if each.kind == "enqueuer" else []
            workers = [each.role] if each.kind == "worker" else []
            owner.execute(migrations.grants(enqueuer=shops, worker=workers).encode())

    assert found == [Lacking("enqueuer", old.enqueuer), Lacking("worker", old.worker)]
    assert migrations.lacking(old.dsn) == []
    with (
        psycopg.connect(user_dsn(old.dsn, old.enqueuer), autocommit=True) as shop,
        psycopg.connect(user_dsn(old.dsn, old.worker), autocommit=True) as worker,
    ):
        ids = base.run(shop, DrawTaskIds(1), schema="wherry")
        large = '"' + "x" * 5000 + '"'
        specs = (Options(queue="q", key="k").spec("t", large),)
        base.run(shop, EnqueueTasks(specs, ids=tuple(ids)), schema="wherry")
        [lease] = base.run(worker, LeaseTasks(queue="q", worker="w", limit=1), schema="wherry")
        assert base.run(worker, CompleteTasks((Completed(lease),)), schema="wherry") == [
            Reported.DONE
        ]


def test_the_command_says_what_to_run(old: Old) -> None:
    answer = CliRunner().invoke(main, ["migrate", "--dsn", old.dsn])

    assert answer.exit_code == 0
    assert f"--grants enqueuer={old.enqueuer} --grants worker={old.worker}" in answer.output


def test_nothing_is_granted_by_looking_and_nothing_said_of_who_has_more(
    server: Server, dsn: str
) -> None:
    migrations.migrate(dsn)
    role = server.make_role()
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(migrations.grants(worker=[role], reader=[role]).encode())
        owner.execute(
            sql.SQL("revoke execute on function wherry.recount from {}").format(
                sql.Identifier(role)
            )
        )
        owner.execute(sql.SQL("grant all on wherry.token to {}").format(sql.Identifier(role)))

        first = migrations.lacking(owner)
        again = migrations.lacking(owner)
        may = value(owner, "select has_function_privilege(%s, 'wherry.recount()', 'execute')", role)
        owner.execute(migrations.grants(worker=[role]).encode())

        assert first == again == [Lacking("worker", role)]
        assert may is False
        assert migrations.lacking(owner) == []
        owner.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
