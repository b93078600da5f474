"""A look at the test's database, one check at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from wherry.doctor.check import finding_of
from wherry.doctor.examine import CHECKS
from wherry.doctor.finding import Finding
from wherry.doctor.patient import Patient
from wherry.migrations import grants

Look = Callable[[str], Finding]


@pytest.fixture
def patient(dsn: str) -> Iterator[Patient]:
    """The test's database, to be looked at."""
    with Patient(dsn, schema="wherry") as opened:
        yield opened


@pytest.fixture
def look(patient: Patient) -> Look:
    """Return what the check of that name finds."""
    by_name = {check.name: check for check in CHECKS}
    return lambda name: finding_of(by_name[name], patient)


@pytest.fixture
def reader(dsn: str) -> Iterator[str]:
    """The DSN as a role that may look at our tables, and at nobody's sessions."""
    role = f"wherry_doctor_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        admin.execute(grants(reader=[role]).encode())
    yield make_conninfo(dsn, user=role)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
