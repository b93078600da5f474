"""Schedules in code: what is refused where it is written, and what identifies a schedule."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wherry
from wherry.domain.retry import Fixed
from wherry.errors import HandlerError, InvalidOption, InvalidPayload

MODULE = """
import wherry
from the_app import app

@app.schedule("0 3 * * *")
@app.task
def work():
    pass
"""


def report(region: str, days: int = 1) -> None:
    """Do nothing."""


def made(**said: Any) -> wherry.App:
    app = wherry.App()
    task = app.task(name="report", queue="reports", max_attempts=3, tags=["r"])(report)
    options: dict[str, Any] = {"payload": {"region": "eu"}, **said}
    app.schedule("0 3 * * *", **options)(task)
    return app


def test_a_schedule_has_the_name_and_the_options_of_its_type_unless_others_are_said() -> None:
    [plain] = made().timetable
    [said] = made(
        name="nightly", tz="Europe/Berlin", queue="night", priority=5, missed="all",
        overlap="skip", retry=Fixed(1.0), payload={"region": "us", "days": 7},
    ).timetable  # fmt: skip

    assert (plain.name, plain.task.queue, plain.task.max_attempts) == ("report", "reports", 3)
    assert (plain.cron.tz, plain.missed, plain.overlap) == ("UTC", "last", "allow")
    assert (said.name, said.cron.tz, said.task.queue) == ("nightly", "Europe/Berlin", "night")
    assert (said.task.max_attempts, said.task.tags, said.task.priority) == (3, ("r",), 5)
    assert said.task.payload == '{"region":"us","days":7}'


def test_a_schedule_leaves_the_task_type_what_it_is() -> None:
    app = wherry.App()

    @app.schedule("0 3 * * *", queue="night")
    @app.task(name="t")
    def t() -> int:
        return 7

    assert isinstance(t, wherry.TaskType)
    assert t() == 7
    assert t.options.queue == "default"


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        ({"payload": {}}, HandlerError, "lacks region"),
        ({"payload": {"region": "eu", "dyas": 1}}, HandlerError, "does not take dyas"),
        ({"payload": {"region": {1}}}, InvalidPayload, "region"),
        ({"payload": []}, InvalidPayload, "dict"),
        ({"tz": "Europe/Berln"}, InvalidOption, "did you mean Europe/Berlin"),
        ({"missed": "none"}, InvalidOption, "last, all, skip"),
        ({"overlap": True}, InvalidOption, "allow, skip"),
        ({"name": ""}, InvalidOption, "empty"),
        ({"name": "a\nb"}, InvalidOption, "control"),
        ({"priority": 101}, InvalidOption, "between"),
        ({"key": "k"}, InvalidOption, "no such option here"),
        ({"delay": 5}, InvalidOption, "no such option here"),
        ({"headers": {"h": "x" * 8150}}, InvalidOption, "8,192"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(
    said: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        made(**said)


def test_a_schedule_below_the_task_is_told_its_place() -> None:
    app = wherry.App()

    with pytest.raises(HandlerError, match="above @app.task"):
        app.schedule("0 3 * * *")(report)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("cron", ["0 3 * * *", "0 4 * * *"])
def test_a_name_that_is_taken_is_refused(cron: str) -> None:
    """CRON-11: two schedules of one type need two names, whatever else they say."""
    app = made()
    task = app.registry.get("report")

    with pytest.raises(HandlerError, match=r"'report' is declared twice, of report .*name="):
        app.schedule(cron, payload={"region": "eu"})(task)
    app.schedule(cron, payload={"region": "eu"}, name="again")(task)

    assert [each.name for each in app.timetable] == ["report", "again"]


def test_a_module_that_is_imported_twice_declares_its_schedule_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = wherry.App()
    path = tmp_path / "work.py"
    path.write_text(MODULE)
    the_app = ModuleType("the_app")
    the_app.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "the_app", the_app)

    for _ in range(2):
        spec = importlib.util.spec_from_file_location("work", path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    assert len(app.timetable) == 1


def test_a_definition_is_all_that_was_said() -> None:
    definitions = {
        each.definition
        for said in (
            {}, {"tz": "Europe/Berlin"}, {"payload": {"region": "us"}}, {"queue": "q"},
            {"missed": "all"}, {"overlap": "skip"}, {"priority": 1}, {"max_attempts": 1},
            {"timeout": 5}, {"ttl": 5}, {"tags": ["x"]}, {"headers": {"a": "b"}},
            {"retry": Fixed(1.0)},
        )
        for each in made(**said).timetable
    }  # fmt: skip

    assert len(definitions) == 13
    assert {each.definition for each in made().timetable} <= definitions


@pytest.mark.parametrize(
    ("headers", "definition"),
    [
        (None, "63159967384500fd35935d2fd9590bff"),
        ({"a": "1"}, "8e688c7fc8a244c07d00a22cbdfaa2f9"),
        ({"a": "1", "b": "ü"}, "ec171e20c8d5712dcf9987d787b07faa"),
        ({"b": "ü", "a": "1"}, "ec171e20c8d5712dcf9987d787b07faa"),
    ],
)
def test_a_definition_stays_what_it_was_in_databases(
    headers: dict[str, str] | None, definition: str
) -> None:
    """Else each deploy has its old workers warn that they give way."""
    [schedule] = made(headers=headers).timetable

    assert schedule.definition == definition
