"""Keeps workers and servers from starting on a database that would lose tasks.

Who knows better says so: by a flag at the start, or, for every program at once, on the server that
is unsafe on purpose, with `wherry.allow_unsafe_database = on` beside `fsync = off`. Then what is
wrong is a warning in the log. At the start only: a worker that runs waits for a server that turned
read-only, as in a failover.
"""

from __future__ import annotations

import logging

import psycopg

from wherry.doctor.check import finding_of
from wherry.doctor.finding import Finding, Judgment, Verdict
from wherry.doctor.patient import Patient
from wherry.doctor.server import JUDGES, Server, is_hopeless, judge_writing
from wherry.doctor.sessions import POOLER
from wherry.errors import ReadOnly, UnfitDatabase
from wherry.migrations import check
from wherry.telemetry.loggers import logger
from wherry.transport.faults import translated

log = logger("wherry.doctor")

_HOW_TO_ALLOW = "With --allow-unsafe-database it starts all the same"


def require_fit(dsn: str, *, schema: str, allow_unsafe: bool) -> None:
    """Refuse a database that is unsafe, or whose schema does not fit.

    Raises UnfitDatabase, ReadOnly, SchemaError, MigrationError, or Unavailable if it is out of
    reach. What *allow_unsafe* or the server allows is logged instead.
    """
    with Patient(dsn, schema=schema) as patient:
        server = _require_safe(patient, allow_unsafe=allow_unsafe)
        check(patient.connection, schema=schema)
        if server.pid != patient.connection.info.backend_pid:
            _tell(patient, finding_of(POOLER, patient))


def require_safe(dsn: str, *, schema: str, allow_unsafe: bool) -> None:
    """Refuse a database that is unsafe, whether the schema is there or not."""
    with Patient(dsn, schema=schema) as patient:
        _require_safe(patient, allow_unsafe=allow_unsafe)


def _require_safe(patient: Patient, *, allow_unsafe: bool) -> Server:
    """Return what the server says of itself, if it may be used."""
    try:
        server = Server.of_rows(patient.rows("doctor/read_server"))
    except psycopg.Error as error:
        # Too busy to answer in time, or lost: the database's trouble, and no mistake of the set-up.
        raise (translated(error, schema=patient.schema) or error) from error
    judged = [judge(server) for judge in JUDGES.values()]
    for judgment in judged:
        # What the server says of itself is known there, as in everybody's tests.
        _tell(patient, judgment, logging.INFO if server.is_allowed else logging.WARNING)
    wrong = [_said(judgment) for judgment in judged if judgment.verdict is Verdict.PROBLEM]
    if not wrong:
        return server
    text = f"{_where(patient)}: {'; '.join(wrong)}"
    if is_hopeless(server):
        raise UnfitDatabase(text)
    if allow_unsafe or server.is_allowed:
        log.warning("THIS DATABASE IS UNSAFE, and somebody allowed it: %s", text)
        return server
    text += f". {_HOW_TO_ALLOW}"
    if judge_writing(server).verdict is Verdict.PROBLEM:
        raise ReadOnly(f"{text}, and waits until it takes writes")
    raise UnfitDatabase(text)


def _tell(patient: Patient, judgment: Judgment | Finding, level: int = logging.WARNING) -> None:
    if judgment.verdict is Verdict.WARNING:
        log.log(level, "%s: %s", _where(patient), _said(judgment))


def _where(patient: Patient) -> str:
    return f"database {patient.database!r} at {patient.server}"


def _said(judgment: Judgment | Finding) -> str:
    return f"{judgment.seen}; {judgment.advice}"
