"""The locks install the same everywhere: hashes for everything, and nobody's address in them.

`python3 -m tools.lock` makes them.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "requirements.lock"
EVERYTHING = ROOT / "requirements-dev.lock"
COMPILER = ROOT / "requirements-proto.lock"
GOOD = "psycopg==3.3.9 ; sys_platform == 'win32' \\\n    --hash=sha256:" + "0a" * 32 + "\n"

_PINNED = re.compile(r"([a-z0-9.-]+)==([\w.!+-]+)( ; [^\\]+)? \\")
_HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?")


def strange_lines(text: str) -> list[str]:
    """Return the lines that are neither a pinned name nor a hash: an address can be in no other."""
    return [
        line for line in text.splitlines() if not (_PINNED.fullmatch(line) or _HASH.fullmatch(line))
    ]


def without_hash(text: str) -> list[str]:
    lines = [*text.splitlines(), ""]
    return [
        line
        for line, following in pairwise(lines)
        if _PINNED.fullmatch(line) and not _HASH.fullmatch(following)
    ]


def pinned(text: str) -> dict[str, str]:
    """Return name and version of everything that *text* pins."""
    return {found[1]: found[2] for found in map(_PINNED.fullmatch, text.splitlines()) if found}


def wanted(*groups: list[str]) -> set[str]:
    """Return the normalized names that requirements such as `psycopg[pool]>=3.2` are about."""
    names = [re.split(r"[^\w.-]", line.strip())[0] for group in groups for line in group]
    # One extra may ask for another one of ours.
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names} - {"wherry"}


def test_an_address_or_a_missing_hash_would_be_noticed() -> None:
    assert not strange_lines(GOOD)
    assert strange_lines(f"--{'index'}-url somewhere\n" + GOOD)
    assert strange_lines("psycopg @ somewhere://host/psycopg.whl\n")
    assert strange_lines(GOOD + "    # from somewhere\n")
    assert not without_hash(GOOD)
    assert without_hash("psycopg==3.3.9 \\\nrich==1 \\\n")


def test_locks_hold_pinned_names_and_hashes_and_nothing_else() -> None:
    for lock in (RUNTIME, EVERYTHING, COMPILER):
        text = lock.read_text()

        assert pinned(text), lock.name
        assert strange_lines(text) == [], lock.name
        assert without_hash(text) == [], lock.name


def test_locks_cover_what_the_project_asks_for() -> None:
    # Fails when a dependency is added to pyproject.toml and the locks are not made again.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = wanted(
        project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()
    )
    everything = runtime | wanted(
        project["build-system"]["requires"], *project["dependency-groups"].values()
    )

    assert runtime - set(pinned(RUNTIME.read_text())) == set()
    assert everything - set(pinned(EVERYTHING.read_text())) == set()


def test_both_locks_pin_the_same_versions() -> None:
    everything = pinned(EVERYTHING.read_text())

    different = {
        name: (version, everything.get(name))
        for name, version in pinned(RUNTIME.read_text()).items()
        if everything.get(name) != version
    }

    assert different == {}


def test_the_lock_of_the_node_example_holds_no_address() -> None:
    # npm writes one beside each package unless it is told not to, and one of who takes donations.
    lock = (ROOT / "examples" / "node" / "package-lock.json").read_text()

    assert '"integrity"' in lock
    assert "://" not in lock
