"""Checks of the schema: its version, indexes, days, and the rights of the role."""

from __future__ import annotations

from datetime import datetime, timedelta

import psycopg
import pytest

from tests.doctor.conftest import Look
from tests.facts import wait_for
from tests.pg.support import OpenSession, Session, spec
from wherry.commands.maintenance import DropPastDays
from wherry.doctor.finding import Verdict
from wherry.doctor.patient import Patient
from wherry.doctor.schema import indexes_made_by, rights_of_a_worker
from wherry.domain.lease import Reported
from wherry.migrations.files import read_folder
from wherry.testing import Clock

PROBLEM, WARNING, OK = Verdict.PROBLEM, Verdict.WARNING, Verdict.OK


def test_a_schema_of_another_version_is_told(look: Look, session: Session) -> None:
    last = read_folder()[-1]
    session.connection.execute("delete from wherry.migration where version = %s", [last.version])
    assert look("schema").verdict is PROBLEM
    assert "run `wherry migrate`" in look("schema").seen

    session.connection.execute(
        "insert into wherry.migration (version, name, checksum, works_from, applied_by)"
        " select n, case when n = %(last)s then %(name)s else 'later' end, %(checksum)s, 1, 'later'"
        "   from generate_series(%(last)s, %(last)s + 1) as n",
        {"last": last.version, "name": last.name, "checksum": last.checksum},
    )
    assert look("schema").verdict is WARNING
    assert "upgrade the wherry package" in (look("schema").advice or "")


def test_the_indexes_that_migrations_make_are_those_of_a_fresh_database(patient: Patient) -> None:
    # Fails when a migration makes, renames or drops one in words that are not read here.
    there = {name for name, _, _ in patient.rows("doctor/list_indexes")}

    assert indexes_made_by(read_folder()) == there
    assert {"live_pkey", "live_ready", "migration_is_applied_once"} <= there


def test_large_payloads_that_are_written_twice_are_told(look: Look, session: Session) -> None:
    assert look("payloads").verdict is OK

    session.rows("update wherry.settings set payloads_apart = false")

    assert look("payloads").verdict is WARNING


def test_a_missing_index_is_a_problem(look: Look, session: Session) -> None:
    session.connection.execute("drop index wherry.live_ready")

    assert look("indexes").verdict is PROBLEM
    assert "missing: live_ready" in look("indexes").seen


def test_an_index_that_was_not_finished_is_a_problem_and_can_be_mended(
    look: Look, session: Session
) -> None:
    session.connection.execute(
        "insert into wherry.waiting (queue, instance, expires_at)"
        " select 'q', gen_random_uuid(), now() from generate_series(1, 2)"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.connection.execute(
            'create unique index concurrently "By Queue" on wherry.waiting (queue)'
        )

    found = look("indexes")

    assert found.verdict is PROBLEM
    assert 'invalid: wherry."By Queue"' in found.seen
    session.connection.execute("delete from wherry.waiting")
    session.connection.execute((found.advice or "").partition(": ")[2].encode())
    assert look("indexes").verdict is OK


def test_a_day_that_is_missing_is_told_and_what_landed_beside_it(
    look: Look, session: Session, clock: Clock
) -> None:
    day = (clock.now() + timedelta(days=7)).date()
    session.connection.execute(f"drop table wherry.finished_{day:%Y%m%d}".encode())

    assert look("days").verdict is WARNING
    assert f"are missing, the first {day}" in look("days").seen

    session.enqueue()
    assert session.complete(session.lease_one()) == [Reported.DONE]
    session.close()
    wait_for(
        lambda: "about 1 finished task went into finished_default" in look("days").seen,
        what="the row is counted",
    )


def test_a_sequence_behind_the_tasks_is_told_until_it_is_moved(
    look: Look, session: Session
) -> None:
    task = session.enqueue_many(*(spec() for _ in range(5)))[-1].id
    assert look("ids").verdict is OK

    session.rows("select setval('wherry.task_id', 1, false)")

    assert look("ids").verdict is PROBLEM
    assert f"task {task} is there" in look("ids").seen
    session.rows("select wherry.catch_up_ids()")
    assert look("ids").verdict is OK


def test_days_that_should_be_gone_are_told(look: Look, session: Session, clock: Clock) -> None:
    first = clock.now().date()
    clock.advance(days=3)
    assert look("past days").verdict is WARNING
    assert f"2 days should have been dropped, the oldest {first}" in look("past days").seen

    clock.advance(days=5)
    assert look("past days").verdict is PROBLEM

    while session.call(DropPastDays()):
        pass
    assert look("past days").verdict is OK


def test_a_day_that_was_taken_out_and_is_held_up_is_told(
    look: Look, session: Session, open_session: OpenSession, clock: Clock
) -> None:
    first = clock.now().date()
    clock.advance(days=9)
    while session.value("select count(*) from wherry.past_day") == 0:
        assert session.call(DropPastDays())
    table = f"past_{first:%Y%m%d}"
    # As a dump does.
    other = open_session()
    other.begin()
    other.rows(f"select from wherry.{table}")
    assert session.call(DropPastDays()) is False
    made = session.rows("select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
                        " where i.inhparent = 'wherry.finished'::regclass")  # fmt: skip
    for [late] in made:
        if f"finished_{first:%Y%m%d}" < late < f"finished_{clock.now():%Y%m%d}":
            session.rows(f"drop table wherry.{late}")

    assert look("past days").verdict is PROBLEM
    assert f"the table {table} was taken out of finished" in look("past days").seen
    assert f"'{table}'::regclass" in (look("past days").advice or "")

    other.rollback()
    while session.call(DropPastDays()):
        pass
    assert look("past days").verdict is OK


def test_days_are_told_by_the_databases_own_date(patient: Patient, clock: Clock) -> None:
    clock.advance(days=2)

    [today, made, days_ahead, in_default, detached] = patient.row("doctor/read_days")

    assert today == clock.now().date()
    assert (days_ahead, in_default, detached) == (30, 0, [])
    assert isinstance(clock.now(), datetime)
    assert len(made) >= 30


def test_what_a_worker_lacks_as_this_role_is_named(reader: str, look: Look) -> None:
    assert look("rights").verdict is OK
    with Patient(reader, schema="wherry") as patient:
        lacking = patient.rows(
            "doctor/list_lacking_rights",
            **dict(
                zip(
                    ("kinds", "names", "privileges"),
                    map(list, zip(*rights_of_a_worker(), strict=True)),
                    strict=True,
                )
            ),
        )

    assert {("table", "live", "insert"), ("sequence", "task_id", "usage")} <= set(lacking)
    assert ("function", "make_days", "execute") in set(lacking)
    assert ("table", "live", "select") not in set(lacking)


def test_the_rights_are_read_off_what_a_worker_is_granted() -> None:
    rights = set(rights_of_a_worker())

    assert {kind for kind, _, _ in rights} == {"table", "sequence", "function"}
    assert {("table", "audit", "insert"), ("table", "live", "delete")} <= rights
    assert ("function", "now", "execute") in rights
    assert all(name.isidentifier() for _, name, _ in rights)
