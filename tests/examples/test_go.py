"""The example in Go: its code generated, compiled, and run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.facts import wait_for
from wherry import App, Task

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a program, compiled in a copy from the distribution's Go packages."""
    place = tmp_path_factory.mktemp("go")
    shutil.copytree(ROOT / "proto", place / "proto")
    made = place / "examples/go"
    shutil.copytree(ROOT / "examples/go", made, ignore=shutil.ignore_patterns("wherryv1"))
    home = place / "path/src/example.org"
    home.mkdir(parents=True)
    (home / "wherry").symlink_to(made)
    env = os.environ | {
        "GO111MODULE": "off",
        "GOPATH": f"{place / 'path'}:/usr/share/gocode",
        "GOCACHE": str(place / "cache"),
        "GOFLAGS": "",
    }
    for command in (("./generate.sh",), ("go", "vet", "."), ("go", "build", "-o", "example", ".")):
        done = subprocess.run(
            command, cwd=home / "wherry", env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return made / "example"


def test_go_enqueues_works_fails_and_leaves_in_good_order(
    example: Path, server: str, dsn: str
) -> None:
    env = os.environ | {"WHERRY_SERVER": server}
    with App(dsn) as app, subprocess.Popen([example, "work"], env=env) as worker:
        said = subprocess.check_output(
            [example, "enqueue", "go.greet", '{"name": "Grace"}', "key"], env=env, text=True
        )
        greeted = int(json.loads(said)["id"])
        failing = app.enqueue("go.fails", {"why": "to see it"}, max_attempts=1)

        assert app.result(greeted, timeout=60) == "hello Grace"
        wait_for(lambda: _task(app, failing.id).state == "dead", seconds=60)
        assert _task(app, failing.id).error == "*errors.errorString: told to fail: to see it"

        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
        wait_for(lambda: not app.list_workers())


def _task(app: App, id: int) -> Task:
    task = app.get_task(id)
    assert task is not None
    return task
