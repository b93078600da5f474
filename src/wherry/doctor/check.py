"""What a check is, and how its look becomes a finding whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import errors as pg

from wherry.commands.base import Rows
from wherry.doctor.finding import Finding, Judgment, unknown
from wherry.doctor.patient import STATEMENT_SECONDS, Patient
from wherry.errors import Unavailable, WherryError
from wherry.transport.faults import one_line

Look: TypeAlias = Callable[[Patient], Judgment]

_OTHER_SCHEMA: Final = (
    pg.UndefinedTable,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.InvalidSchemaName,
)


@dataclass(frozen=True, slots=True)
class Check:
    """Something to look at. *of_tables*: there must be a schema of ours to look into."""

    name: str
    look: Look
    of_tables: bool = True


def asked(statement: str, judge: Callable[[Rows], Judgment], **params: Any) -> Look:
    """Return the look that judges the rows of one statement of sql/doctor."""
    return lambda patient: judge(patient.rows(f"doctor/{statement}", **params))


def finding_of(check: Check, patient: Patient) -> Finding:
    """Look, and say what was found; what keeps us from looking is `unknown`, never an error."""
    return Finding(check.name, *_judged(check, patient))


def _judged(check: Check, patient: Patient) -> Judgment:
    try:
        return check.look(patient)
    except pg.InsufficientPrivilege as error:
        return unknown(
            f"role {patient.role!r} may not look: {one_line(error)}",
            "look as the owner of the schema, or give the role the rights of a reader:"
            f" wherry migrate --grants {quote(f'reader={patient.role}')}",
        )
    except pg.QueryCanceled:
        return unknown(
            f"no answer within {STATEMENT_SECONDS:g} s", "look again when less is going on"
        )
    except pg.LockNotAvailable:
        return unknown("a table is locked", "look again; a migration may be under way")
    except _OTHER_SCHEMA as error:
        return unknown(
            f"the schema is not as this Wherry knows it: {one_line(error)}",
            "mend what the check `schema` says first",
        )
    except (psycopg.Error, OSError) as error:
        return unknown(f"it could not be looked at: {one_line(error)}")
    except Unavailable as error:
        return unknown(f"the connection was lost: {error}")
    except WherryError as error:
        return unknown(str(error))
    except Exception as error:  # noqa: BLE001 - the border of one check
        # A mistake of ours in one check must not hide what the others found.
        return unknown(
            f"this check failed, by a mistake of Wherry: {type(error).__name__}: {error}"
        )
