"""`wherry doctor`: look at the database and say what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.entry import DONE, NOT_DONE
from wherry.cli.opened import database
from wherry.cli.output import Output
from wherry.cli.text import plain
from wherry.config import DEFAULT_SCHEMA
from wherry.domain.counting import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wherry.doctor.finding import Diagnosis


@click.command()
@with_database
@with_json
@with_verbosity
@click.pass_obj
def doctor(asked: Asked, /) -> None:
    """Look at the database, and say what is wrong and what to do; change nothing.

    The exit code is 1 if there is a problem. Warnings are none.
    """
    from wherry.doctor.examine import examine
    from wherry.doctor.finding import Verdict

    with database(asked) as dsn:
        diagnosis = examine(dsn, schema=asked.schema or DEFAULT_SCHEMA)
    out = Output(asked)
    if out.as_json:
        out.json({"verdict": diagnosis.verdict, **asdict(diagnosis)})
    else:
        _show(out, diagnosis)
    found_one = diagnosis.verdict is Verdict.PROBLEM
    click.get_current_context().exit(NOT_DONE if found_one else DONE)


def _show(out: Output, diagnosis: Diagnosis) -> None:
    place = f"database {diagnosis.database} at {diagnosis.server}, schema {diagnosis.schema}"
    out.line(plain(f"{place}, as role {diagnosis.role}"), bold=True)
    out.named_lines(_rows(diagnosis, with_fine=not out.is_quiet))
    if diagnosis.left_out:
        out.line(f"not looked at without a schema: {', '.join(diagnosis.left_out)}")
    out.line(_sum(diagnosis), bold=True)


def _rows(diagnosis: Diagnosis, *, with_fine: bool) -> Iterator[tuple[str, str, list[str]]]:
    from wherry.doctor.finding import Verdict

    for finding in diagnosis.worst_first():
        if finding.verdict is Verdict.OK and not with_fine:
            continue
        advice = [] if finding.advice is None else [f"→ {finding.advice}"]
        yield finding.verdict, finding.check, [finding.seen, *advice]


def _sum(diagnosis: Diagnosis) -> str:
    from wherry.doctor.finding import Verdict

    numbers = {verdict: len(diagnosis.of(verdict)) for verdict in Verdict}
    said = [
        count(numbers[verdict], verdict.value)
        for verdict in (Verdict.PROBLEM, Verdict.WARNING)
        if numbers[verdict]
    ]
    said += [f"{numbers[Verdict.UNKNOWN]} unknown"] if numbers[Verdict.UNKNOWN] else []
    return ", ".join([*said, f"{numbers[Verdict.OK]} fine"])
