"""The migration that begins to count: of what is there, and without a gap for who has rights."""

from __future__ import annotations

import psycopg

from tests.migrations.support import Server, user_dsn, value
from wherry import migrations
from wherry.commands.flow import CountStates, ReadTotals
from wherry.commands.tally import RollFlow
from wherry.domain.flow import StateCount
from wherry.transport import base

BEFORE = 7


def test_the_sums_begin_with_what_is_there(dsn: str) -> None:
    migrations.migrate(dsn, up_to=BEFORE)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for delay in ("null", "null", "'1 hour'::interval"):
            conn.execute(f"select wherry.enqueue('q', 't', delay => {delay})".encode())
        conn.execute(
            "insert into wherry.finished (id, token, created_at, run_after, finished_at,"
            " keep_until, attempts, max_attempts, priority, state, queue, type, payload)"
            " values (900, 1, now(), now(), now(), now(), 1, 1, 0, 'dead', 'q', 'u', '{}')"
        )

        migrations.migrate(dsn)
        with conn.transaction():
            base.run(conn, RollFlow(), schema="wherry")
        states = base.run(conn, CountStates(), schema="wherry")
        totals = base.run(conn, ReadTotals(), schema="wherry").totals

    assert states.counts == (
        StateCount("q", "t", queued=3, delayed=1),
        StateCount("q", "u", dead=1),
    )
    # Nothing of it has happened since we count.
    assert {n for total in totals for n in total.counts.values()} == {0}


def test_whoever_enqueued_before_the_migration_can_after_it(server: Server) -> None:
    dsn = server.make_database()
    enqueuer, worker, stranger = (server.make_role() for _ in range(3))
    migrations.migrate(dsn, up_to=BEFORE)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(
            f'grant usage on schema wherry to "{enqueuer}", "{worker}", "{stranger}";'
            f'grant select, insert, update, delete on wherry.live to "{worker}";'
            f'grant select (id), insert (id, queue) on wherry.live to "{enqueuer}"'.encode()
        )

        migrations.migrate(dsn)
        rights = {
            role: value(
                owner,
                "select string_agg(t || ' ' || p, ', ' order by t, p)"
                "  from unnest(array['flow', 'tally', 'pair', 'chore']) as t"
                " cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as p"
                " where has_table_privilege(%s, 'wherry.' || t, p)",
                role,
            )
            for role in (enqueuer, worker, stranger)
        }
    with psycopg.connect(user_dsn(dsn, enqueuer), autocommit=True) as conn:
        conn.execute(
            "insert into wherry.flow (at, n, kind, queue, type)"
            " values (now(), 1, 'enqueued', 'q', 't')"
        )

    assert rights[enqueuer] == "flow INSERT"
    assert rights[stranger] is None
    assert rights[worker].count(",") == 15
