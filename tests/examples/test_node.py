"""The example in TypeScript: installed from its lock, built, and run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts import wait_for
from wherry import App

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, built beside a copy of the .proto files."""
    place = tmp_path_factory.mktemp("node")
    shutil.copytree(ROOT / "proto", place / "proto")
    made = place / "examples/node"
    ignored = shutil.ignore_patterns("node_modules", "dist", "wire")
    shutil.copytree(ROOT / "examples/node", made, ignore=ignored)
    for command in (("npm", "ci", "--no-audit", "--no-fund"), ("npm", "run", "build")):
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def worker(example: Path, server: str) -> Iterator[subprocess.Popen[str]]:
    """The example's worker as a process."""
    command = ["node", "dist/worker.js"]
    env = os.environ | {"WHERRY_SERVER": server}
    with subprocess.Popen(
        command, cwd=example, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def enqueue(example: Path, server: str, *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        ["node", "dist/enqueue.js", *arguments],
        cwd=example,
        env=os.environ | {"WHERRY_SERVER": server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_node_enqueues_and_the_same_key_again_gives_the_same_task(
    example: Path, server: str, dsn: str
) -> None:
    payload = '{"name": "Ada", "n": 12345678901234567890}'

    first = enqueue(example, server, "node.greet", payload, "k")
    again = enqueue(example, server, "node.greet", payload, "k")

    assert (first["created"], again["created"]) == (True, False)
    assert first["id"] == again["id"]
    with App(dsn) as app:
        task = app.get_task(int(str(first["id"])))
        assert task is not None
        assert task.payload == {"name": "Ada", "n": 12345678901234567890}


def test_node_works_retries_and_leaves_in_good_order(
    example: Path, server: str, dsn: str, worker: subprocess.Popen[str]
) -> None:
    with App(dsn) as app:
        greeted = app.enqueue("node.greet", {"name": "Ada"})
        flaky = app.enqueue("node.flaky", {"works_at": 2})

        assert app.result(greeted.id, timeout=60) == "hello Ada"
        assert app.result(flaky.id, timeout=60) == 2
        task = app.get_task(flaky.id)
        assert task is not None
        assert [attempt.message for attempt in task.history] == ["attempt 1 is too early"]
        wait_for(lambda: any(seen.name.startswith("node-") for seen in app.list_workers()))

        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
        wait_for(lambda: not app.list_workers())
