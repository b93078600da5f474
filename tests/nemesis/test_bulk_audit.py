"""The judgment of a bulk: what was done properly passes, each way to break a promise is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from tests.nemesis import bulk_audit
from tests.pg.support import Session, spec
from wherry.domain.lease import Lease

TASKS = 4


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    made = Session(dsn)
    made.rows("create schema audit")
    bulk_audit.install(made.connection)
    yield made
    made.close()


def poured(session: Session, folder: Path) -> list[int]:
    """Enqueue a batch, and say so as its pourer would."""
    names = [f"pourer-1.1-{n}" for n in range(TASKS)]
    answers = session.enqueue_many(*(spec(payload={"n": n}, queue="bulk") for n in names))
    write(folder, "asked", [("pourer-1.1", 0, TASKS)])
    told = [("pourer-1.1", a.id, n) for a, n in zip(answers, names, strict=True)]
    write(folder, "told", told)
    return [answer.id for answer in answers]


def drained(session: Session, folder: Path) -> list[Lease]:
    """Lease and complete all, and say so as their drainer would."""
    leases = session.lease(TASKS, queue="bulk")
    began = [
        ("w.1", each.id, each.token, each.lease_id, f"pourer-1.1-{n}")
        for n, each in enumerate(leases)
    ]
    write(folder, "began", began)
    answers = session.complete(*leases)
    answered = zip(leases, answers, strict=True)
    write(folder, "answered", [("w.1", e.id, e.token, e.lease_id, str(a)) for e, a in answered])
    return leases


def write(folder: Path, kind: str, rows: list[tuple[Any, ...]]) -> None:
    with (folder / f"w.1.{kind}.tsv").open("a") as into:
        into.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def judged(session: Session, folder: Path) -> tuple[dict[str, list[str]], dict[str, int]]:
    connection: psycopg.Connection[Any] = session.connection
    return bulk_audit.judge(connection, folder)


def test_what_was_done_properly_breaks_no_promise(session: Session, tmp_path: Path) -> None:
    poured(session, tmp_path)
    drained(session, tmp_path)

    broken, counted = judged(session, tmp_path)

    assert broken == {}
    assert counted == {
        "bulk: tasks": TASKS,
        "bulk: executions": TASKS,
        "bulk: executions of a task that had begun before": 0,
        "bulk: lease lost and reaped": 0,
    }


LOSE: LiteralString = "delete from wherry.finished where id = (select min(id) from wherry.finished)"
SWAP: LiteralString = 'update wherry.finished set payload = \'{"n": "pourer-1.1-0"}\''
AGAIN: LiteralString = (
    "insert into wherry.finished"
    ' select (jsonb_populate_record(f, \'{"keep_until": "2999-01-01"}\')).*'
    " from wherry.finished f"
)
STUCK: LiteralString = "update wherry.finished set state = 'dead'"


@pytest.mark.parametrize(
    ("after", "promise"),
    [
        (LOSE, bulk_audit.LOST),
        (SWAP, "W5 bulk: one wish is one task"),
        (AGAIN, bulk_audit.DOUBLE),
        (AGAIN, bulk_audit.ILLEGAL),
        (STUCK, "O2 bulk: all succeed"),
    ],
)
def test_what_was_spoiled_in_the_end_is_told(
    session: Session, tmp_path: Path, after: LiteralString, promise: str
) -> None:
    poured(session, tmp_path)
    drained(session, tmp_path)
    session.rows(after)

    broken, _ = judged(session, tmp_path)

    assert promise in broken


@pytest.mark.parametrize("promise", [bulk_audit.ILLEGAL, "L1 bulk: tokens grow by one"])
def test_a_step_that_no_table_knows_is_told(session: Session, tmp_path: Path, promise: str) -> None:
    poured(session, tmp_path)
    session.lease(TASKS, queue="bulk")
    session.rows("update wherry.live set state = 'parked', token = token + 1")

    broken, _ = judged(session, tmp_path)

    assert promise in broken


def _nobody_asked(folder: Path) -> None:
    (folder / "w.1.asked.tsv").write_text("pourer-1.1\t8\t4\n")


def _told_another(folder: Path) -> None:
    lines = (folder / "w.1.answered.tsv").read_text().replace("\t1\t", "\t9\t", 1)
    (folder / "w.1.answered.tsv").write_text(lines)


def _twice(kind: str) -> Callable[[Path], None]:
    def twice(folder: Path) -> None:
        path = folder / f"w.1.{kind}.tsv"
        path.write_text(path.read_text() * 2)

    return twice


def _ran_another(folder: Path) -> None:
    path = folder / "w.1.began.tsv"
    path.write_text(path.read_text().replace("pourer-1.1-0", "pourer-1.1-7"))


@pytest.mark.parametrize(
    ("spoil", "promise"),
    [
        (_nobody_asked, "W4 bulk: no phantoms"),
        (_told_another, "W2 bulk: what was told is so"),
        (_twice("answered"), bulk_audit.DOUBLE),
        (_twice("began"), "L6 bulk: leases are given once"),
        (_ran_another, "W4 bulk: it ran what was stored"),
    ],
)
def test_what_a_process_says_that_is_not_so_is_told(
    session: Session, tmp_path: Path, spoil: Callable[[Path], None], promise: str
) -> None:
    poured(session, tmp_path)
    drained(session, tmp_path)
    spoil(tmp_path)

    broken, _ = judged(session, tmp_path)

    assert promise in broken
