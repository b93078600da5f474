"""The whole look: every check, one after the other, over one connection that changes nothing."""

from __future__ import annotations

from typing import Final

from wherry.doctor import locks, schedules, sessions, vacuum, work
from wherry.doctor import schema as of_schema
from wherry.doctor.check import Check, finding_of
from wherry.doctor.finding import Diagnosis
from wherry.doctor.patient import Patient
from wherry.doctor.server import CHECKS as SERVER_CHECKS
from wherry.domain.names import check_schema
from wherry.migrations.records import own_version, table_exists

CHECKS: Final[tuple[Check, ...]] = (
    *SERVER_CHECKS,
    of_schema.SCHEMA,
    *sessions.CHECKS,
    locks.CHECK,
    *vacuum.SERVER_CHECKS,
    *vacuum.TABLE_CHECKS,
    *of_schema.CHECKS,
    *work.CHECKS,
    *schedules.CHECKS,
)


def examine(dsn: str, *, schema: str) -> Diagnosis:
    """Look at everything, and return what was found; takes a second, on a sick database a minute.

    Raises Unavailable if no connection can be made, and ConfigError for a DSN that is none or is a
    server's address. Whatever goes wrong later is a finding.
    """
    with Patient(dsn, schema=check_schema(schema)) as patient:
        has_tables = table_exists(patient.connection, schema)
        looked_at = [check for check in CHECKS if has_tables or not check.of_tables]
        findings = tuple(finding_of(check, patient) for check in looked_at)
        return Diagnosis(
            server=patient.server,
            database=patient.database,
            role=patient.role,
            schema=schema,
            wherry_version=own_version().removeprefix("wherry "),
            findings=findings,
            left_out=tuple(check.name for check in CHECKS if check not in looked_at),
        )
