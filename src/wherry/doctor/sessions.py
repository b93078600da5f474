"""Checks of connections: who sits between, how many there may be, whose clock is right."""

from __future__ import annotations

import time
from typing import Final

import psycopg

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, warning
from wherry.doctor.patient import ANSWER_SECONDS, Patient, connect
from wherry.domain.durations import span

_MANY, _TOO_MANY = 0.8, 0.95
# A worker's connections are idle for so long: the listener proves that it lives every 30 s.
_IDLE_SECONDS: Final = 45.0
_CLOCK_SECONDS: Final = 2.0
_TURN_SECONDS: Final = 2.0


def judge_use(rows: Rows) -> Judgment:
    """Whether there is room for more sessions; the narrowest of three limits counts."""
    [[used, allowed, in_database, of_database, of_role, allowed_of_role]] = rows
    limits = [
        (used, allowed, "max_connections"),
        (in_database, of_database, "the connection limit of this database"),
        (of_role, allowed_of_role, "the connection limit of this role"),
    ]
    share, seen, name = max(
        (n / most if most else 1.0, f"{n:,} of {most:,} sessions", name)
        for n, most, name in limits
        if most >= 0
    )
    said = f"{seen} are taken ({name})"
    if share < _MANY:
        return fine(said)
    advice = (
        f"raise {name}, or have fewer: a worker takes five and its App's pool, a server four and"
        " its pool; see who is there with: select application_name, count(*) from pg_stat_activity"
        " group by 1"
    )
    return problem(said, advice) if share >= _TOO_MANY else warning(said, advice)


def judge_settings(rows: Rows) -> Judgment:
    """Whether sessions of ours are left alone while they have nothing to do."""
    [[idle, idle_in_transaction, jit]] = rows
    if 0 < idle < _IDLE_SECONDS:
        return warning(
            f"idle_session_timeout ends idle sessions after {idle:g} s: workers lose theirs, and"
            " make new ones all day",
            "set it to a minute or more, or to 0 for the role of the workers",
        )
    never = "idle_in_transaction_session_timeout is 0: a forgotten transaction stays for ever"
    ends = f"idle_in_transaction_session_timeout is {idle_in_transaction:g} s"
    ours = " (off on Wherry's own connections)" if jit == "on" else ""
    return fine(f"{ends if idle_in_transaction else never}; jit is {jit}{ours}")


def judge_ahead(ahead_seconds: float, *, within_seconds: float) -> Judgment:
    """Whether this machine and the database agree on the time; *within_seconds* it took to ask."""
    apart = abs(ahead_seconds)
    if apart <= _CLOCK_SECONDS + within_seconds:
        return fine(f"this machine and the database agree to {span(apart)}")
    return warning(
        f"the database's clock is {span(apart)} {'ahead of' if ahead_seconds > 0 else 'behind'}"
        " that of this machine",
        "set both by NTP. Wherry goes by the database's clock alone, so tasks are not hurt; but a"
        " moment that a program computes for run_after is off by as much",
    )


def judge_pooler(*, is_pooled: bool, is_shared: bool) -> Judgment:
    """Whether sessions are ours alone."""
    if not is_pooled:
        return fine("none between this machine and PostgreSQL")
    if not is_shared:
        return fine("there is one, and a session keeps its connection to PostgreSQL")
    return warning(
        "there is one that gives each transaction another connection to PostgreSQL: notifications"
        " never arrive, and statements that were prepared may be missing",
        "connect workers and servers to PostgreSQL itself; or start them with --no-listen, and let"
        " the pooler keep prepared statements (PgBouncer: max_prepared_statements)",
    )


def _look_at_clock(patient: Patient) -> Judgment:
    # Once before, so that nothing of the first exchange is counted.
    patient.row("doctor/read_clock")
    before = time.time()
    [at_seconds] = patient.row("doctor/read_clock")
    after = time.time()
    return judge_ahead(at_seconds - (before + after) / 2, within_seconds=(after - before) / 2)


def look_at_pooler(patient: Patient) -> Judgment:
    """A pooler tells a process id of its own; one that shares is seen by taking turns.

    While another session holds the connection to PostgreSQL that answered us before, ours is
    answered by the same process as before only if that connection is not shared.
    """
    [pid] = patient.row("doctor/read_backend")
    if pid == patient.connection.info.backend_pid:
        return judge_pooler(is_pooled=False, is_shared=False)
    ours = patient.connection
    with connect(patient.dsn) as other, other.transaction():
        other.execute("select 1")
        # In vain if it is the only one, and all who are behind that pooler wait meanwhile.
        ours.answer_seconds = _TURN_SECONDS
        try:
            [now] = patient.row("doctor/read_backend")
        except psycopg.OperationalError:
            # The only one there is, and the other session has it now.
            now = None
        finally:
            ours.answer_seconds = ANSWER_SECONDS
    return judge_pooler(is_pooled=True, is_shared=now != pid)


POOLER: Final = Check("pooler", look_at_pooler, of_tables=False)
CHECKS: Final = (
    POOLER,
    Check("clock", _look_at_clock, of_tables=False),
    Check("sessions", asked("read_use", judge_use), of_tables=False),
    Check("settings", asked("read_session_settings", judge_settings), of_tables=False),
)
