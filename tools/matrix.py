"""Runs the suite on every CPython and every PostgreSQL of this machine (`./run test --matrix`).

The two are walked one at a time, not crossed: every CPython with the first PostgreSQL, every
further PostgreSQL with the first CPython. What was not run is part of the answer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tools import door, venvs

ROOT = venvs.ROOT
MINORS = ("3.11", "3.12", "3.13", "3.14")
POSTGRES_MAJORS = range(14, 19)
SYSTEM_POSTGRES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
ASK_FOR_KIND = (
    "import platform, sysconfig;"
    "free = sysconfig.get_config_var('Py_GIL_DISABLED');"
    "print(platform.python_implementation() + (' free-threaded' if free else ''))"
)


@dataclass(frozen=True)
class Postgres:
    """Binaries to run the suite on; no folder means those that the embedded extra brings."""

    name: str
    folder: Path | None


@dataclass(frozen=True)
class Cell:
    """One run: an interpreter and a PostgreSQL."""

    minor: str
    python: str
    postgres: Postgres


def main(main_python: Path, arguments: list[str]) -> int:
    """Run every cell with *arguments* for pytest; return 0 if all passed."""
    pythons, not_run = find_pythons()
    servers, without = find_postgres()
    not_run += without
    first = _minor_of(venvs.version_of(main_python))
    pythons[first] = str(main_python)
    cells = [Cell(minor, pythons[minor], servers[0]) for minor in sorted(pythons, key=_as_numbers)]
    cells += [Cell(first, pythons[first], server) for server in servers[1:]]
    not_run += [
        f"CPython {minor} on {server.name}: each axis is walked on its own"
        for minor in sorted(pythons, key=_as_numbers)
        for server in servers[1:]
        if minor != first
    ]
    results = []
    for cell in cells:
        title = f"CPython {cell.minor} on {cell.postgres.name}"
        print(f"\n===== {title} =====", flush=True)
        started = time.monotonic()
        passed, last = _run(cell, first, arguments)
        took = time.monotonic() - started
        results.append((passed, f"{title:44}{took:7.1f} s  {last.strip(' =')}"))
    print("\nmatrix:")
    for passed, line in results:
        print(f"  {'ok  ' if passed else 'FAIL'} {line}")
    for line in not_run:
        print(f"  not run: {line}")
    return 0 if all(passed for passed, _ in results) else 1


def find_pythons() -> tuple[dict[str, str], list[str]]:
    """Return the newest CPython of each minor version that can run us, and why others cannot."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "uv/python"
    candidates = [shutil.which(f"python{minor}") for minor in MINORS] + [shutil.which("python3")]
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    candidates += [str(path) for path in sorted(uv.glob("*/bin/python3"))]
    candidates += [f"/usr/bin/python{minor}" for minor in MINORS]
    found: dict[str, tuple[str, str]] = {}
    not_run: dict[str, None] = {}
    for candidate in filter(None, candidates):
        version = venvs.version_of(candidate)
        minor = _minor_of(version)
        if not version:
            # A shim of a version that is not selected, or no such file: nothing there to run.
            continue
        kind = _ask(candidate, "-c", ASK_FOR_KIND)
        if _as_numbers(minor) < (3, 11):
            not_run[f"{kind} {version}: older than 3.11"] = None
        elif kind != "CPython":
            not_run[f"{kind} {version}: only CPython with its lock is supported"] = None
        elif minor not in found or _as_numbers(found[minor][0]) < _as_numbers(version):
            found[minor] = (version, candidate)
    for minor in MINORS:
        if minor not in found:
            not_run[f"CPython {minor}: none was found on this machine"] = None
    return {minor: path for minor, (_, path) in found.items()}, list(not_run)


def find_postgres() -> tuple[list[Postgres], list[str]]:
    """Return the embedded PostgreSQL and the system's own, and why others are not run."""
    servers = [Postgres("embedded PostgreSQL", None)]
    not_run: list[str] = []
    majors: set[int] = set()
    for pattern in SYSTEM_POSTGRES:
        for folder in sorted(Path("/").glob(pattern.lstrip("/"))):
            answer = _ask(str(folder / "postgres"), "--version")
            number = re.search(r"\d+", answer)
            if number is None or not (folder / "initdb").exists():
                not_run.append(f"PostgreSQL in {folder}: it has no server that starts")
            elif int(number[0]) not in POSTGRES_MAJORS:
                not_run.append(f"PostgreSQL {number[0]} in {folder}: 14 to 18 are supported")
            else:
                majors.add(int(number[0]))
                servers.append(Postgres(f"PostgreSQL {number[0]} of the system", folder))
    if not majors:
        not_run.append(f"the system's PostgreSQL: nothing in {', '.join(SYSTEM_POSTGRES)}")
    return servers, not_run


def _run(cell: Cell, first: str, arguments: list[str]) -> tuple[bool, str]:
    """Run the suite in one cell; return whether it passed, and its closing line."""
    venv = ROOT / (".venv" if cell.minor == first else f".venv-{cell.minor}")
    try:
        python = venvs.ensure(venv, cell.python)
    except venvs.SetupFailed as failed:
        return False, str(failed)
    environment = {name: value for name, value in os.environ.items() if name != "WHERRY_PG_BIN"}
    if cell.postgres.folder is not None:
        environment["WHERRY_PG_BIN"] = str(cell.postgres.folder)
    last = "it printed nothing"
    with subprocess.Popen(
        door.pytest_command(python, arguments),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as suite:
        assert suite.stdout is not None
        for line in suite.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return suite.returncode == 0, last


def _ask(program: str, *arguments: str) -> str:
    try:
        asked = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()


def _minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
