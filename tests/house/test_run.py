"""The door to the tools: it explains itself, and starts under a Python that is too old for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tools import check, door

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "run"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_tells_of_every_verb_and_every_check() -> None:
    told = run("--help")

    assert told.returncode == 0
    assert [verb for verb in door.VERBS if f"\n  {verb} " not in told.stdout] == []
    assert [name for name in check.NAMES if name not in told.stdout] == []


def test_an_unknown_verb_is_answered_with_the_known_ones() -> None:
    refused = run("dance")

    assert refused.returncode == 2
    assert "'dance'" in refused.stderr
    assert ", ".join(door.VERBS) in refused.stderr


def test_an_unknown_check_is_answered_with_the_known_ones() -> None:
    refused = run("check", "dance")

    assert refused.returncode == 2
    assert ", ".join(check.NAMES) in refused.stderr


def test_the_script_can_be_read_by_an_older_python() -> None:
    # Fails for syntax that 3.7 does not know, such as `:=`, `match` or `X | Y` without quotes.
    text = (ROOT / "run").read_text()

    ast.parse(text, feature_version=(3, 7))
    assert "from __future__" not in text


def test_pytest_runs_on_every_core_unless_told_otherwise() -> None:
    assert "-n" in door.pytest_command(Path("python"), ["tests/domain"])
    for said in (["-n0"], ["-n", "4"], ["--pdb"], ["-p", "no:xdist"]):
        assert door.pytest_command(Path("python"), said) == ["python", "-m", "pytest", *said]
