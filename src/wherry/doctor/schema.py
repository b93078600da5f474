"""Checks of the schema: its version, its indexes, its days, and what the role may do there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, unknown, warning
from wherry.doctor.patient import Patient
from wherry.doctor.wording import names
from wherry.domain.counting import count
from wherry.errors import MigrationError, SchemaError, SchemaMissing
from wherry.migrations import check
from wherry.migrations.files import MigrationFile, read_folder
from wherry.migrations.records import CREATE_TABLE
from wherry.migrations.roles import WORKER

_LATE_DAYS, _TOO_LATE_DAYS = 1, 4
_GRANT = re.compile(
    r"grant ([a-z, ]+?)\s+on\s+(sequence|function|)\s*(.+?)\s+to \{role\};", re.DOTALL
)
_OF_INDEXES = re.compile(
    r"""
      ^create\s+(?:unique\s+)?index\s+(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?(?P<made>\w+)\s+on\s
    | ^drop\s+index\s+(?:concurrently\s+)?(?:if\s+exists\s+)?wherry\.(?P<dropped>\w+)
    | ^create\s+table\s+wherry\.(?P<table>\w+)\s*\((?P<columns>.*?)^\)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_PRIMARY = re.compile(r"(?:constraint\s+(?P<named>\w+)\s+)?primary\s+key")


def look_at_schema(patient: Patient) -> Judgment:
    """Whether this version of Wherry can work with the schema that is there."""
    try:
        found = check(patient.connection, schema=patient.schema)
    except SchemaMissing as error:
        return problem(
            str(error), "run `wherry migrate`, or name the schema that it is in with --schema"
        )
    except (SchemaError, MigrationError) as error:
        if type(error) is SchemaError:
            # The role may not look there.
            return unknown(str(error))
        return problem(str(error), "see wherry migrate --status, and mend this first")
    known = len(read_folder())
    if found > known:
        return warning(
            f"the schema is at migration {found}, and this Wherry knows {known}; it still works",
            "upgrade the wherry package on this machine",
        )
    return fine(f"the schema is at migration {found}, as this Wherry wants it")


def indexes_made_by(files: Sequence[MigrationFile]) -> set[str]:
    """Return the names of the indexes that these migrations, and their runner, make.

    Primary keys are among them.
    """
    made: set[str] = set()
    for text in (CREATE_TABLE, *(file.sql for file in files)):
        for found in _OF_INDEXES.finditer(text):
            if found["made"]:
                made.add(found["made"])
            elif found["dropped"]:
                made.discard(found["dropped"])
            elif primary := _PRIMARY.search(found["columns"]):
                made.add(primary["named"] or f"{found['table']}_pkey")
    return made


def judge_indexes(rows: Rows) -> Judgment:
    """Whether each index that the migrations make is there and can be used."""
    missing = sorted(indexes_made_by(read_folder()) - {name for name, _, _ in rows})
    broken = [qualified for _, qualified, is_usable in rows if not is_usable]
    if missing:
        return problem(
            f"missing: {names(missing)}: without them leases read whole tables",
            "make them again with the statements in Wherry's migrations (wherry migrate --sql),"
            " as create index concurrently",
        )
    if broken:
        return problem(
            f"invalid: {names(broken)}: left by an attempt to make them that failed",
            f"while all runs: reindex index concurrently {broken[0]}",
        )
    return fine(f"all {len(rows)} are there and usable")


def judge_days(rows: Rows) -> Judgment:
    """Whether the days are made in which tasks that finish now are kept."""
    [[today, made, days_ahead, in_default, _]] = rows
    wanted = [today + timedelta(days=n) for n in range(days_ahead + 1)]
    missing = sorted(set(wanted) - set(made))
    advice = (
        "start a worker or a server: each makes them at its start and every hour; if one runs, its"
        " log says what is in the way (often a long transaction that reads finished tasks)"
    )
    if in_default:
        return warning(
            f"about {count(in_default, 'finished task')} went into finished_default: no day was"
            " made for them in time",
            advice,
        )
    if missing:
        return warning(
            f"{len(missing)} of {len(wanted)} are missing, the first {missing[0]}", advice
        )
    return fine(f"made until {max(made)}, and nothing is in finished_default")


def judge_ids(rows: Rows) -> Judgment:
    """Whether ids that are drawn next belong to no task that is there."""
    [[drawn, highest]] = rows
    if highest is not None and highest > drawn:
        return problem(
            f"the sequence of ids is at {drawn}, and task {highest} is there: a restore, or a"
            " logical copy, has left it behind, and ids that are drawn now may be taken",
            "run `select wherry.catch_up_ids()` (in your schema): it moves the sequence past them",
        )
    return fine("no task has an id that has not been drawn yet")


def judge_past_days(rows: Rows) -> Judgment:
    """Whether days whose retention is over are dropped."""
    [[today, made, _, _, detached]] = rows
    late = today - timedelta(days=_LATE_DAYS)
    past: list[date] = sorted(day for day in (*made, *detached) if day < late)
    if not past:
        return fine("every day whose retention is over was dropped")
    seen = f"{count(len(past), 'day')} should have been dropped, the oldest {past[0]}"
    advice = (
        "see that a worker or a server runs, and that nobody reads finished tasks in a long"
        " transaction: the drop waits for a moment without readers"
    )
    if detached and detached[0] < late:
        # It is no part of finished any more, so that whoever is in the way is seen at it alone.
        table = f"past_{detached[0]:%Y%m%d}"
        seen += f"; the table {table} was taken out of finished for it, and is there still"
        advice += (
            f". Who is in the way of {table} now is told by `select pid, mode from pg_locks where"
            f" relation = '{table}'::regclass` (in your schema); days after it wait for it"
        )
    is_bad = past[0] < today - timedelta(days=_TOO_LATE_DAYS)
    return (problem if is_bad else warning)(seen, advice)


def judge_payloads(rows: Rows) -> Judgment:
    """Whether large payloads are written once."""
    [[apart]] = rows
    if apart:
        return fine("large ones stand apart from their tasks, and are written once")
    return warning(
        "large ones stand with their tasks, and are written again when a task ends: this schema was"
        " in use before Wherry could do otherwise",
        "once no worker or server from before migration 0011 is left, set payloads_apart in"
        " wherry.settings to true",
    )


def rights_of_a_worker() -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and privilege of each right that a worker is granted."""
    for privileges, kind, things in _GRANT.findall(WORKER):
        for thing in things.split(","):
            name = thing.strip().removeprefix("wherry.").removesuffix("()")
            for privilege in privileges.split(","):
                yield kind or "table", name, privilege.strip()


def judge_rights(rows: Rows) -> Judgment:
    """Whether a worker could work as this role."""
    if not rows:
        return fine("this role may do all that a worker does")
    lacking: dict[str, list[str]] = {}
    for _, name, privilege in rows:
        lacking.setdefault(name, []).append(privilege)
    shown = [f"{'/'.join(privileges)} on {name}" for name, privileges in lacking.items()]
    return warning(
        f"this role could be no worker's: it lacks {names(shown)}",
        "all is well if it is not meant to be; else the owner of the schema runs what `wherry"
        " migrate --grants worker=ROLE` prints",
    )


def _look_at_rights(patient: Patient) -> Judgment:
    wanted: list[tuple[Any, ...]] = list(rights_of_a_worker())
    kinds, things, privileges = (list(column) for column in zip(*wanted, strict=True))
    return judge_rights(
        patient.rows("doctor/list_lacking_rights", kinds=kinds, names=things, privileges=privileges)
    )


SCHEMA: Final = Check("schema", look_at_schema, of_tables=False)
CHECKS: Final = (
    Check("indexes", asked("list_indexes", judge_indexes)),
    Check("ids", asked("read_ids", judge_ids)),
    Check("days", asked("read_days", judge_days)),
    Check("past days", asked("read_days", judge_past_days)),
    Check("payloads", asked("read_payloads_apart", judge_payloads)),
    Check("rights", _look_at_rights),
)
