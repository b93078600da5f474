"""What made schedules of others fire twice, not at all, or without a word."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.pg.support import OpenSession
from tests.worker.support import at_work
from wherry.commands import scheduling
from wherry.commands.scheduling import SettleSchedules

Connect = Callable[..., psycopg.Connection[Any]]
PROGRAM = """
import sys, wherry

app = wherry.App(sys.argv[1])

@app.schedule("* * * * *", headers={"b": "1", "a": "2"}, tags=["x", "y"])
@app.schedule("* * * * *", name="other", payload={"z": 1, "a": {"c": 2, "b": 3}})
@app.task(name="t")
def t(**given): pass

if __name__ == "__main__":
    app.work(until_empty=True)
    for schedule in app.timetable:
        print(schedule.name, schedule.definition)
"""


def test_a_schedule_is_the_same_one_in_every_process(
    dsn: str, tmp_path: Path, connect: Connect
) -> None:
    """CRON-10: whatever seed a process has for its hashes."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    told = [
        subprocess.run(
            [sys.executable, str(path), dsn],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]

    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 2
    rows = connect().execute("select name, former from wherry.schedule order by name").fetchall()
    assert rows == [("other", []), ("t", [])]


async def test_two_schedules_of_one_type_and_one_expression_both_fire(app: wherry.App) -> None:
    """CRON-11."""
    seen: set[tuple[str | None, int]] = set()

    @app.schedule("* * * * * *", payload={"n": 1})
    @app.schedule("* * * * * *", payload={"n": 2}, name="second")
    @app.task(name="t")
    async def t(n: int) -> None:
        seen.add((wherry.current().schedule, n))

    async with at_work(app):
        await await_for(lambda: len(seen) == 2)

    assert seen == {("t", 1), ("second", 2)}
    for name in ("t", "second"):
        planned = [tick.planned_at for tick in await app.alist_ticks(name)]
        assert len(planned) == len(set(planned)) > 0


async def test_a_scheduler_that_hangs_costs_ticks_that_are_told_and_no_later_ones(
    app: wherry.App,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CRON-17, CRON-04: it is silent in the middle of its transaction, as behind a black hole."""
    monkeypatch.setattr(scheduling, "_HOLD", "3s")
    caplog.set_level(logging.WARNING, "wherry.maintenance")

    @app.schedule("* * * * * *", name="held")
    @app.schedule("* * * * * *", name="free")
    @app.task(name="t")
    async def t() -> None:
        pass

    observer = open_session()

    def fired(name: str, *, least: int = 0) -> int:
        [(n,)] = observer.rows("select fired from wherry.schedule where name = %s", name)
        return n if n >= least else 0

    async with at_work(app):
        await await_for(lambda: fired("held", least=1))
        hung = open_session()
        hung.begin()
        await await_for(lambda: hung.call(SettleSchedules(name="held")).fired)
        before, free = fired("held"), fired("free")
        await await_for(lambda: fired("free", least=free + 1))

        # The server ends the silent one by itself.
        await await_for(lambda: fired("held", least=before + 2), seconds=30)

    held = await app.aget_schedule("held")
    assert held is not None
    assert held.missed_ticks > 0
    ticks = await app.alist_ticks("held", limit=1000)
    planned = ticks[0].until_at - ticks[-1].planned_at
    assert sum(tick.n for tick in ticks) == planned // timedelta(seconds=1) + 1
    assert sum(tick.n for tick in ticks) == held.fired + held.missed_ticks
    assert "schedule held: no task for missed" in caplog.text
