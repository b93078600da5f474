"""Large payloads stand apart in a new database; in one used before, when its owner says so.

Code of one migration earlier runs on the new schema, and reads a payload nowhere but in its task.
"""

from __future__ import annotations

import psycopg
import pytest

from tests.migrations.support import Server, user_dsn, value
from wherry import migrations
from wherry.commands.tasks import EnqueueTasks
from wherry.domain.options import Options
from wherry.errors import SchemaTooNew
from wherry.migrations.files import read_folder
from wherry.migrations.records import read_records, require_current
from wherry.transport import base

[FILE] = [file for file in read_folder() if file.name.endswith("_payloads")]
LARGE = '{"text": "' + "x" * 20_000 + '"}'
ENQUEUE = "select id from wherry.enqueue('q', 't', %s::text::jsonb)"
IN_TASKS = "select count(*) from wherry.live where payload is not null"


def enqueue_by_all_doors(conn: psycopg.Connection) -> None:
    base.run(conn, EnqueueTasks((Options(queue="q").spec("t", LARGE),)), schema="wherry")
    value(conn, ENQUEUE, LARGE)


def test_they_stand_apart_in_a_new_database(dsn: str) -> None:
    migrations.migrate(dsn)

    with psycopg.connect(dsn, autocommit=True) as conn:
        enqueue_by_all_doors(conn)
        assert value(conn, IN_TASKS) == 0
        assert value(conn, "select count(distinct task_id) from wherry.payload") == 2


def test_they_stay_with_their_tasks_where_a_task_was_ever_stored(dsn: str) -> None:
    migrations.migrate(dsn, up_to=FILE.version - 1)
    with psycopg.connect(dsn, autocommit=True) as conn:
        value(conn, ENQUEUE, "{}")
        conn.execute("delete from wherry.live")
        migrations.migrate(dsn)

        enqueue_by_all_doors(conn)
        assert value(conn, IN_TASKS) == 2

        conn.execute("update wherry.settings set payloads_apart = true")
        enqueue_by_all_doors(conn)
        assert value(conn, IN_TASKS) == 2
        assert value(conn, "select count(distinct task_id) from wherry.payload") == 2


def test_they_stay_with_their_tasks_where_a_worker_is_at_work(dsn: str) -> None:
    migrations.migrate(dsn, up_to=FILE.version - 1)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "insert into wherry.worker"
            " (instance, name, host, types, started_at, beat_at, expires_at)"
            " values (gen_random_uuid(), 'w', 'h', '{t}', now(), now(), now())"
        )
        migrations.migrate(dsn)

        enqueue_by_all_doors(conn)
        assert value(conn, IN_TASKS) == 2


def test_who_was_granted_its_rights_before_goes_on_enqueuing_in_sql(
    dsn: str, server: Server
) -> None:
    migrations.migrate(dsn)
    role = server.make_role()
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(migrations.grants(enqueuer=[role]).encode())
        owner.execute(f'revoke execute on function wherry.put_apart from "{role}"'.encode())
        with psycopg.connect(user_dsn(dsn, role), autocommit=True) as conn:
            value(conn, ENQUEUE, LARGE)
        assert value(owner, IN_TASKS) == 1

        owner.execute(migrations.grants(enqueuer=[role]).encode())
        with psycopg.connect(user_dsn(dsn, role), autocommit=True) as conn:
            enqueue_by_all_doors(conn)
        assert value(owner, IN_TASKS) == 1
        owner.execute(f'drop owned by "{role}"'.encode())


def test_code_from_before_does_not_start_on_what_it_could_not_read(dsn: str) -> None:
    migrations.migrate(dsn)
    known = read_folder()[: FILE.version - 1]

    with psycopg.connect(dsn, autocommit=True) as conn:
        records = read_records(conn, "wherry")
    with pytest.raises(SchemaTooNew, match="upgrade the wherry package"):
        require_current(known, records, schema="wherry")

    require_current(read_folder()[:-1], records, schema="wherry")
