"""Runs every check, two at a time, and reports them all: one that fails hides no other.

A check is a command. What it prints is kept back and shown whole if it failed; of one that passed
the last line is enough.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.venvs import ROOT

DEADLINE_S = 900
CODE = ("src", "tests", "tools", "examples", "bench")


@dataclass(frozen=True)
class Check:
    """A command of the environment's `bin`, and what it holds up."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """How one check went."""

    name: str
    passed: bool
    output: str
    took_s: float


def _code() -> tuple[str, ...]:
    return tuple(folder for folder in CODE if any((ROOT / folder).rglob("*.py")))


def _migrations() -> tuple[str, ...]:
    return tuple(map(str, sorted((ROOT / "src/wherry/migrations").glob("*.sql"))))


def checks(python: Path) -> list[Check]:
    """Return all checks; the slow ones come first, so that two at a time end together."""
    return [
        Check("basedpyright", ("basedpyright", "--pythonpath", str(python), *_code())),
        Check("mypy", ("mypy", "--strict", *_code())),
        Check("house", ("python", "-m", "pytest", "-q", "-p", "no:xdist", "tests/house")),
        Check("ruff", ("ruff", "check", ".")),
        Check("format", ("ruff", "format", "--check", ".")),
        Check("layers", ("lint-imports",)),
        Check("twins", ("python", "-m", "tools.unasync", "--check")),
        Check("wire", ("python", "-m", "tools.proto", "--check")),
        Check("buf", ("python", "-m", "tools.proto", "--contract")),
        Check("squawk", ("squawk", "--reporter", "gcc", *_migrations())),
    ]


NAMES = tuple(check.name for check in checks(Path("python")))
FIXES = (
    ("ruff", "check", "--fix", "."),
    ("python", "-m", "tools.unasync"),
    ("ruff", "format", "."),
)


def main(python: Path, arguments: list[str]) -> int:
    """Run the checks that *arguments* name, or all; return 0 if they passed."""
    wanted = [given for given in arguments if given != "--fix"]
    unknown = sorted(set(wanted) - set(NAMES))
    if unknown:
        print(f"run: no check {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if "--fix" in arguments:
        for command in FIXES:
            subprocess.run([str(python.parent / command[0]), *command[1:]], cwd=ROOT, check=False)
    chosen = [check for check in checks(python) if not wanted or check.name in wanted]
    failed = [report.name for report in _run_all(python, chosen) if not report.passed]
    print(f"check: {len(chosen) - len(failed)} passed, {len(failed)} failed" + _listed(failed))
    return 1 if failed else 0


def _listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _run_all(python: Path, chosen: list[Check]) -> Iterator[Report]:
    with ThreadPoolExecutor(max_workers=2) as threads:
        for report in threads.map(lambda check: _run(python, check), chosen):
            mark = "ok  " if report.passed else "FAIL"
            lines = report.output.strip().splitlines() or ["(it printed nothing)"]
            print(f"{mark} {report.name:13}{report.took_s:6.1f} s  {lines[-1].strip()}", flush=True)
            if not report.passed:
                print("\n".join(f"     {line}" for line in lines), flush=True)
            yield report


def _run(python: Path, check: Check) -> Report:
    started = time.monotonic()
    command = [str(python.parent / check.command[0]), *check.command[1:]]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        passed, output = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired:
        passed, output = False, f"not done after {DEADLINE_S} s"
    except OSError as error:
        passed, output = False, f"cannot start {command[0]}: {error.strerror}"
    return Report(check.name, passed, output, time.monotonic() - started)
