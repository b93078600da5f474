"""The whole look: it says fine of what is well, hides nothing behind a failure, changes nothing."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import wherry
from tests.doctor.conftest import Look
from tests.pg.support import Session
from wherry.doctor.check import Check, finding_of
from wherry.doctor.examine import CHECKS, examine
from wherry.doctor.finding import Diagnosis, Finding, Judgment, Verdict
from wherry.doctor.patient import Patient

ALL = [check.name for check in CHECKS]


def unwell(diagnosis: Diagnosis) -> dict[str, Verdict]:
    return {f.check: f.verdict for f in diagnosis.findings if f.verdict is not Verdict.OK}


def test_a_healthy_database_is_fine_in_every_check(dsn: str) -> None:
    with wherry.App(dsn) as app:
        diagnosis = app.doctor()

    # The tests' server syncs nothing, and says so itself.
    assert unwell(diagnosis) == {"durability": Verdict.WARNING}
    assert [finding.check for finding in diagnosis.findings] == ALL
    assert (diagnosis.left_out, diagnosis.verdict) == ((), Verdict.WARNING)
    assert {finding.advice is None for finding in diagnosis.of(Verdict.OK)} == {True}
    assert diagnosis.database == conninfo_to_dict(dsn)["dbname"]


async def test_it_can_be_asked_for_in_a_loop(app: wherry.App) -> None:
    assert [finding.check for finding in (await app.adoctor()).findings] == ALL


def test_a_server_is_not_asked_in_the_databases_place() -> None:
    app = wherry.App("grpc://localhost:1")

    with pytest.raises(wherry.ConfigError, match="this needs the database itself"):
        app.doctor()


def test_without_a_schema_the_server_is_still_looked_at(dsn: str) -> None:
    diagnosis = examine(dsn, schema="nothing here")

    assert unwell(diagnosis) == {"durability": Verdict.WARNING, "schema": Verdict.PROBLEM}
    assert "run `wherry migrate`" in diagnosis.of(Verdict.PROBLEM)[0].seen
    assert "leases" in diagnosis.left_out
    assert {*diagnosis.left_out, *(finding.check for finding in diagnosis.findings)} == set(ALL)


def test_nothing_can_be_changed_over_its_connection(patient: Patient, session: Session) -> None:
    held = patient.connection
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), held.transaction():
        held.execute("delete from wherry.settings")

    before = session.dump()
    for check in CHECKS:
        finding_of(check, patient)
    assert session.dump() == before


def test_a_locked_table_hides_no_other_finding(look: Look, session: Session) -> None:
    with session.connection.transaction():
        session.connection.execute("lock table wherry.live in access exclusive mode")
        found = {name: look(name) for name in ("due tasks", "leases", "dead tasks", "sizes")}

    assert {name for name, finding in found.items() if finding.verdict is Verdict.UNKNOWN} == {
        "due tasks",
        "sizes",
    }
    assert found["due tasks"].seen == "a table is locked"


def test_a_connection_that_was_cut_costs_one_finding(patient: Patient, session: Session) -> None:
    [pid] = patient.row("doctor/read_backend")
    session.rows("select pg_terminate_backend(%s, 5000)", pid)

    first, second = (finding_of(CHECKS[0], patient) for _ in range(2))

    assert (first.verdict, second.verdict) == (Verdict.UNKNOWN, Verdict.OK)


def test_a_mistake_in_one_check_is_its_own_finding(patient: Patient) -> None:
    def divide(_: Patient) -> Judgment:
        return 1 / 0  # type: ignore[return-value]

    found = finding_of(Check("broken", divide), patient)

    assert found == Finding(
        "broken",
        Verdict.UNKNOWN,
        "this check failed, by a mistake of Wherry: ZeroDivisionError: division by zero",
    )


def test_a_role_that_may_little_hears_which_right_it_lacks(reader: str) -> None:
    blind = examine(reader, schema="wherry")

    assert unwell(blind).keys() == {"durability", "rights"}

    role = str(conninfo_to_dict(reader)["user"])
    with psycopg.connect(reader.replace(role, "wherry"), autocommit=True) as admin:
        admin.execute(f"revoke all on wherry.live from {role}".encode())
        blinder = examine(reader, schema="wherry")
        admin.execute(f"revoke usage on schema wherry from {role}".encode())
        blindest = examine(reader, schema="wherry")

    lacking = {finding.check: finding for finding in blinder.of(Verdict.UNKNOWN)}
    assert "permission denied for table live" in lacking["due tasks"].seen
    assert role in lacking["due tasks"].seen
    assert f"wherry migrate --grants reader={role}" in (lacking["due tasks"].advice or "")
    assert "leases" not in lacking
    assert [finding.check for finding in blindest.findings] == ALL
    assert "permission denied for schema" in blindest.of(Verdict.UNKNOWN)[0].seen
