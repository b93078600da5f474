"""`wherry worker --processes N`: none is left behind, and none is missing for long."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.conftest import Running
from tests.facts import wait_for
from wherry import App
from wherry.cli.supervisor import final_code, next_step, pause_seconds

Start = Callable[..., Running]
Sql = Callable[..., list[Any]]


def pids(sql: Sql) -> set[int]:
    """The workers that have said that they are there."""
    return {row[0] for row in sql("select pid from wherry.worker where expires_at > wherry.now()")}


def is_gone(pid: int) -> bool:
    """Whether the process is no more, or only waits for somebody to ask how it ended."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def both(sql: Sql) -> set[int]:
    return wait_for(lambda: found if len(found := pids(sql)) == 2 else None, seconds=60) or set()


def test_what_follows_when_a_worker_ends() -> None:
    def after(
        code: int, *, first: bool = False, stopping: bool = False, empty: bool = False
    ) -> str:
        return next_step(code, first=first, stopping=stopping, until_empty=empty)

    assert after(-9) == after(0) == after(1, first=True) == "again"
    assert after(2, first=True) == after(3, first=True) == "give up"
    assert after(2) == after(3) == "again"
    assert after(0, empty=True) == after(1, empty=True) == "done"
    assert after(-9, empty=True) == "again"
    assert after(-9, stopping=True) == after(2, stopping=True) == "done"


def test_the_pause_before_another_start_grows_to_half_a_minute() -> None:
    assert [pause_seconds(n) for n in (0, 1, 2, 3, 7, 100, 10**6)] == [0, 0.5, 1, 2, 30, 30, 30]


@pytest.mark.parametrize(
    ("code", "stopping", "final"),
    [(0, True, 0), (1, True, 1), (3, False, 3), (-9, True, 1), (-15, True, 0), (-15, False, 1),
     (130, True, 0), (77, True, 1)],
)  # fmt: skip
def test_what_a_workers_end_adds_to_the_exit_code(code: int, stopping: bool, final: int) -> None:
    assert final_code(code, stopping=stopping) == final


def test_so_many_processes_share_the_work_and_end_when_there_is_none(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    app.enqueue_many([{"type": "shop.mail", "payload": {"to": str(n)}} for n in range(40)])

    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2", "--until-empty")

    assert supervisor.end(seconds=40) == 0
    assert sorted(supervisor.out.split()[2::3], key=int) == [str(n) for n in range(40)]


def test_the_arguments_of_the_workers_hold_no_dsn(
    started: Start, sql: Sql, dsn: str, shop: str
) -> None:
    """SEC-06: every user of a machine can read the arguments of a program, `ps` shows them."""
    started("worker", shop, "--dsn", make_conninfo(dsn, password="pa55word"), "--processes", "2")

    for pid in both(sql):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"--supervised-by" in arguments
        assert b"pa55word" not in arguments


def test_the_names_of_the_workers_are_numbered(
    started: Start, dsn: str, shop: str, sql: Sql
) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2", "--name", "box")
    both(sql)

    assert sorted(sql("select name from wherry.worker")) == [("box-1",), ("box-2",)]
    supervisor.signal(signal.SIGTERM)
    assert supervisor.end() == 0


def test_a_killed_worker_is_replaced_and_all_end_with_the_supervisor(
    started: Start, dsn: str, shop: str, sql: Sql
) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2")
    first = both(sql)
    victim = min(first)

    os.kill(victim, signal.SIGKILL)

    newcomer = wait_for(lambda: pids(sql) - first, seconds=60)
    assert "was killed by SIGKILL; starting another" in supervisor.err
    supervisor.signal(signal.SIGTERM)
    assert supervisor.end() == 0
    assert all(is_gone(pid) for pid in first | newcomer)
    assert "SIGTERM received: passing it on to 2 workers" in supervisor.err


def test_a_worker_that_is_asked_to_stop_finishes_and_is_replaced(
    started: Start, app: App, dsn: str, shop: str, sql: Sql
) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2", "--name", "box")
    first = both(sql)
    [[asked]] = sql("select pid from wherry.worker where name = 'box-1'")

    assert app.direct_workers(["box-1"], "stop") == 1

    # It hears of that at its next beat.
    [newcomer] = wait_for(lambda: pids(sql) - first, seconds=60)
    assert pids(sql) == first - {asked} | {newcomer}
    assert sql("select name, directive from wherry.worker order by name") == [
        ("box-1", "none"),
        ("box-2", "none"),
    ]
    assert "worker 1 ended with exit code 0; starting another" in supervisor.err
    supervisor.signal(signal.SIGTERM)
    assert supervisor.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_and_handlers_finish(
    started: Start, app: App, dsn: str, shop: str, sql: Sql, number: signal.Signals
) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2")
    both(sql)
    id = app.enqueue("shop.slow", {"seconds": 1}).id
    supervisor.says("begun")

    supervisor.signal(number)

    assert supervisor.end() == 0
    task = app.get_task(id)
    assert task is not None
    assert task.state == "succeeded"


def test_the_worst_exit_code_is_the_supervisors(
    started: Start, app: App, dsn: str, shop: str, sql: Sql
) -> None:
    supervisor = started(
        "worker", shop, "--dsn", dsn, "--processes", "2", "--shutdown-timeout", "0.5s"
    )
    both(sql)
    app.enqueue("shop.endless")
    supervisor.says("begun")

    supervisor.signal(signal.SIGTERM)

    assert supervisor.end() == 1


def test_workers_of_a_killed_supervisor_stop_gracefully(
    started: Start, app: App, dsn: str, shop: str, sql: Sql
) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "2")
    workers = both(sql)
    id = app.enqueue("shop.slow", {"seconds": 1}).id
    supervisor.says("begun")

    supervisor.signal(signal.SIGKILL)

    wait_for(lambda: all(is_gone(pid) for pid in workers), seconds=60)
    task = app.get_task(id)
    assert task is not None
    assert (task.state, task.attempts) == ("succeeded", 1)


def test_what_cannot_work_is_not_tried_again(started: Start, dsn: str) -> None:
    supervisor = started("worker", "nosuch:app", "--dsn", dsn, "--processes", "2")

    assert supervisor.end() == 2
    assert "there is no module 'nosuch'" in supervisor.err
    assert "starting another" not in supervisor.err


def test_a_stopped_start_leaves_nobody(started: Start, dsn: str, shop: str) -> None:
    supervisor = started("worker", shop, "--dsn", dsn, "--processes", "3", "-v")
    supervisor.says("is process ")

    supervisor.signal(signal.SIGTERM)

    assert supervisor.end() == 0
    started_pids = [
        int(line.split()[-1]) for line in supervisor.err.splitlines() if "is process" in line
    ]
    assert all(is_gone(pid) for pid in started_pids)
