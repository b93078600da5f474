"""The examples run as they stand, again and again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OUTPUTS = {
    "quickstart.py": "Hello, world!\n",
    "transaction.py": "packed: 1\npacked: 3\n",
}


def run(*command: str, given: str | None = None, folder: Path) -> tuple[int, str, str]:
    """Return how a program ended and what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        input=given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"__init__.py", *OUTPUTS}


@pytest.mark.usefixtures("wherry_home")
@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_example_prints_the_same_at_each_run(name: str, tmp_path: Path) -> None:
    runs = [run(str(EXAMPLES / name), folder=tmp_path) for _ in range(2)]

    assert runs == [(0, OUTPUTS[name], "")] * 2


@pytest.mark.usefixtures("wherry_home")
def test_the_quickstart_works_as_pasted_into_python(tmp_path: Path) -> None:
    pasted = (EXAMPLES / "quickstart.py").read_text()

    assert run("-", given=pasted, folder=tmp_path) == (0, OUTPUTS["quickstart.py"], "")
