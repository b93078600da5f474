"""Worker processes on the test's database, and the file of what their handlers did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.servers import Fleet, Notes

ROOT = Path(__file__).resolve().parents[2]
StartWorker = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which handlers append what they did."""
    path = tmp_path / "effects"
    path.touch()
    monkeypatch.setenv("EFFECTS", str(path))
    return path


@pytest.fixture
def start_worker(dsn: str, effects: Path) -> Iterator[StartWorker]:
    """Start a worker process; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*, lease_for: float = 30.0, until_empty: bool = True) -> subprocess.Popen[str]:
        mode = "until-empty" if until_empty else "for-ever"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mission.shop", str(lease_for), mode],
            cwd=ROOT,
            env={**os.environ, "WHERRY_DSN": dsn, "EFFECTS": str(effects)},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Servers, and workers that have only a server."""
    with Fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture
def notes(dsn: str) -> Notes:
    """Where the handlers of remote workers write down that they began."""
    return Notes(dsn)
