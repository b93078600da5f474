"""What a type checker says of a caller's program: nothing of right calls, a word of each wrong.

The program is checked where it has nothing but what is installed, as a caller's own would be, by
both checkers in their strict form. Each of its lines that is wrong says so.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = '''\
"""A program as a caller of Wherry writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

import wherry

app = wherry.App("postgresql://", imports=["shop.handlers"], pool_size=4)


@app.task
def resize(path: str, width: int = 100, *, keep: bool = False) -> int:
    ctx = wherry.current()
    assert_type(ctx.task_id, int)
    assert_type(ctx.headers, dict[str, str])
    return len(path) + width + keep


@app.task(queue="mail", retry=wherry.Fixed(5), timeout=timedelta(seconds=3), tags=("a", "b"))
async def send(to: str, *, copies: Sequence[str] = ()) -> None:
    if not copies:
        raise wherry.Retry("later", after=timedelta(minutes=1))
    raise wherry.Snooze(5)


@app.task()
def nothing() -> None:
    return None


@app.task(quue="mail")  # wrong
def misspelt() -> None:
    return None


@app.task(priority="high")  # wrong
def urgent() -> None:
    return None


@app.task(key="one")  # wrong
def keyed() -> None:
    return None


@app.task(isolation="process")  # wrong
def apart() -> None:
    return None


# Called here and now.
assert_type(resize, wherry.TaskType[..., int])  # wrong
assert_type(resize("a"), int)
assert_type(resize("a", 3, keep=True), int)
resize()  # wrong
resize(3)  # wrong
resize("a", keep="no")  # wrong
resize("a", 3, True)  # wrong
resize("a", height=3)  # wrong

# Enqueued.
assert_type(resize.enqueue("a"), wherry.Enqueued)
assert_type(resize.enqueue("a", 3, keep=True).id, int)
assert_type(send.enqueue(to="a", copies=["b"]), wherry.Enqueued)
nothing.enqueue()
nothing.enqueue(1)  # wrong
resize.enqueue()  # wrong
resize.enqueue(path=3)  # wrong
resize.enqueue("a", "wide")  # wrong
resize.enqueue("a", height=3)  # wrong
resize.enqueue("a", queue="images")  # wrong
send.enqueue("a", copies=[1])  # wrong
send.enqueue(b"a")  # wrong
send.enqueue("a").task_id  # wrong

# With options of one enqueue.
lines: list[str] = ["x"]
headers: dict[str, str] = {"trace": "1"}
assert_type(resize.using(queue="images", priority=3).enqueue("a"), wherry.Enqueued)
resize.using(delay=5, key="k", key_ttl=timedelta(days=1)).enqueue("a", width=3)
resize.using(run_after=datetime.now(UTC), tags=lines, headers=headers, ttl=1.5).enqueue("a")
resize.using(tx=object(), notify=False, retry=wherry.FullJitter()).enqueue("a")
resize.using(queue="images").enqueue(3)  # wrong
resize.using(queue=3).enqueue("a")  # wrong
resize.using(qeue="images").enqueue("a")  # wrong
resize.using(priority="3")  # wrong
resize.using(tags=[1])  # wrong
resize.using(headers={"a": 1})  # wrong
resize.using(retry=3)  # wrong
resize.using(run_after="tomorrow")  # wrong
resize.using(store_result=True)  # wrong

# By its name, and many at once.
calls: list[dict[str, str]] = [{"path": "a"}]
payload: Mapping[str, int] = {"width": 3}
assert_type(resize.enqueue_many(calls), list[wherry.Enqueued])
assert_type(app.enqueue("shop.resize", payload, queue="images"), wherry.Enqueued)
assert_type(app.enqueue_many([{"type": "shop.resize", "payload": {}}]), list[wherry.Enqueued])
app.enqueue("shop.resize", "a")  # wrong
app.enqueue("shop.resize", payload, que="images")  # wrong
app.enqueue(resize)  # wrong
resize.enqueue_many([3])  # wrong
app.cancel("3")  # wrong

# What comes back.
task = app.get_task(3)
assert_type(task, wherry.Task | None)
task.state  # wrong
assert_type(app.list_tasks(state=[wherry.State.DEAD], queue="mail"), wherry.Page)
assert_type(app.cancel(3), wherry.Canceled)
app.list_tasks(stat="dead")  # wrong
app.work(["mail"], concurrency="4")  # wrong
assert_type(app.work(["mail"], concurrency=4, until_empty=True), wherry.Summary)


async def awaited() -> None:
    assert_type(await send.aenqueue("a"), wherry.Enqueued)
    assert_type(await resize.aenqueue("a", 3), wherry.Enqueued)
    assert_type(await send.using(queue="slow").aenqueue("a", copies=lines), wherry.Enqueued)
    assert_type(await app.aget_task(3), wherry.Task | None)
    assert_type(await send("a"), None)
    await send.aenqueue(3)  # wrong
    await send.using(delay="soon").aenqueue("a")  # wrong
    await resize.using(queue="slow").aenqueue("a", height=3)  # wrong
    await send.enqueue("a")  # wrong
    send.aenqueue("a").id  # wrong
    await app.awork(["mail"], lease_for="long")  # wrong


asyncio.run(awaited())
'''
WRONG = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program, in a folder that configures nothing but how strict a checker is to be."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "reportUnusedCoroutine": "none"})
    )
    return path


def checked(program: Path, *command: str) -> str:
    """Return what a checker prints of the program."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:], program.name],
        cwd=program.parent,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def by_mypy(program: Path) -> dict[int, str]:
    said = checked(program, "mypy", "--strict", "--python-executable", sys.executable)
    found = re.findall(r"^program\.py:(\d+): error: (.*)$", said, re.MULTILINE)
    assert found, said
    return {int(line): message for line, message in found}


def by_pyright(program: Path) -> dict[int, str]:
    said = checked(program, "basedpyright", "--outputjson", "--pythonpath", sys.executable)
    report: dict[str, Any] = json.loads(said)
    return {
        each["range"]["start"]["line"] + 1: each["message"]
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    }


@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_a_type_checker_finds_each_wrong_call_and_nothing_else(check: Any, program: Path) -> None:
    """CLI-04: decorated functions keep their types, awaited or not, with options or without."""
    found = check(program)

    assert {line: message for line, message in found.items() if line not in WRONG} == {}
    assert {PROGRAM.splitlines()[line - 1] for line in WRONG - found.keys()} == set()
