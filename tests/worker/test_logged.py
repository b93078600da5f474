"""Log lines carry the fields of their task, whoever wrote them; an outcome has one line."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import wherry
from tests.worker.support import drained
from wherry.cli.logs import JSONLines, Lines
from wherry.domain.retry import Fixed

FIELDS = ("task_id", "queue", "type", "attempt", "worker")


class Kept(logging.Handler):
    """Keeps all that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.addFilter(wherry.TaskFields())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    """All that is logged, through the filter."""
    caplog.set_level(logging.DEBUG)
    kept = Kept()
    logging.getLogger().addHandler(kept)
    yield kept.records
    logging.getLogger().removeHandler(kept)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: record.__dict__[name] for name in FIELDS}


async def test_what_a_handler_logs_carries_its_task(
    app: wherry.App, lines: list[logging.LogRecord]
) -> None:
    mine = logging.getLogger("shop")

    def deeper() -> None:
        mine.info("deeper")

    @app.task(name="mail", queue="mail")
    async def mail() -> None:
        mine.info("begun")
        await asyncio.to_thread(deeper)
        # Its own word counts.
        mine.info("said", extra={"queue": "mine"})

    @app.task(name="plain", queue="mail")
    def plain() -> None:
        mine.info("plain")

    first, second = (await app.aenqueue("mail")).id, (await app.aenqueue("plain")).id
    await drained(app)
    mine.info("outside")

    said = {record.getMessage(): fields(record) for record in lines if record.name == "shop"}
    of_mail = {"task_id": first, "queue": "mail", "type": "mail", "attempt": 1, "worker": "w1"}
    assert said == {
        "begun": of_mail,
        "deeper": of_mail,
        "said": of_mail | {"queue": "mine"},
        "plain": of_mail | {"task_id": second, "type": "plain"},
        "outside": dict.fromkeys(FIELDS),
    }


async def test_each_outcome_has_one_line_with_level_and_duration(
    app: wherry.App, lines: list[logging.LogRecord]
) -> None:
    @app.task(name="t", retry=Fixed(0))
    async def t(kind: str) -> None:
        if kind == "snooze" and wherry.current().attempt == 1:
            raise wherry.Snooze(3600)
        if kind == "dead":
            raise ValueError("secret-free")
        if kind == "fail":
            raise wherry.Fail("no")
        if kind == "cancel":
            raise wherry.Cancel("not needed")

    ids = {
        kind: (await app.aenqueue("t", {"kind": kind}, max_attempts=2)).id
        for kind in ("done", "dead", "fail", "cancel", "snooze")
    }
    await drained(app)

    told = {
        kind: [
            (record.levelname, record.__dict__["outcome"])
            for record in lines
            if record.name == "wherry.worker.outcomes" and record.__dict__["task_id"] == id_
        ]
        for kind, id_ in ids.items()
    }
    assert told == {
        "done": [("DEBUG", "done")],
        "dead": [("WARNING", "requeued"), ("ERROR", "dead")],
        "fail": [("WARNING", "failed")],
        "cancel": [("DEBUG", "canceled")],
        "snooze": [("DEBUG", "requeued")],
    }
    for record in lines:
        if record.name == "wherry.worker.outcomes":
            assert fields(record)["worker"] == "w1"
            assert record.__dict__["duration_seconds"] >= 0


async def test_no_line_holds_a_payload(app: wherry.App, lines: list[logging.LogRecord]) -> None:
    @app.task(name="pay", max_attempts=1)
    async def pay(card: str, result: bool) -> Any:
        if not result:
            raise ValueError("declined")
        return card

    for result in (True, False):
        await app.aenqueue("pay", {"card": "4111-1111", "result": result}, headers={"k": "4111-2"})
    await app.aenqueue("pay", {"crad": "4111-3"}, max_attempts=1)
    await drained(app)

    formatter = JSONLines()
    assert lines
    # By Wherry: psycopg and asyncio have loggers, too.
    said = [formatter.format(each) for each in lines if each.name.startswith("wherry")]
    assert [line for line in said if "4111" in line] == []


def test_a_line_of_json_has_the_fields_and_what_else_was_given() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    record = logging.makeLogRecord(
        {"name": "shop", "msg": "said", "levelno": 20, "levelname": "INFO", "task_id": 7}
        | {"type": "mail", "odd": Odd(), "nan": float("nan"), "n": 3, "exc_text": "Traceback"}
    )

    line = json.loads(JSONLines().format(record))

    assert (line["task_id"], line["type"], line["n"], line["nan"]) == (7, "mail", 3, "nan")
    assert line["odd"] == "<Odd, whose repr raised RuntimeError>"
    assert line["traceback"] == "Traceback"


def test_a_line_for_people_says_whose_it_is_unless_its_text_does() -> None:
    given = {"msg": "said", "levelname": "INFO", "task_id": 7, "attempt": 2}
    lines = Lines(with_pid=False)

    assert " shop [task 7, attempt 2]: said" in lines.format(
        logging.makeLogRecord({"name": "shop", **given})
    )
    assert " wherry.worker: said" in lines.format(
        logging.makeLogRecord({"name": "wherry.worker", **given})
    )
