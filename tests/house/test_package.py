"""What is installed from a wheel or a source package is whole: the SQL and the types go along."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both packages, offline, with the build backend of the lock."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def needed() -> set[str]:
    """Return what has to be in a package: all that stands in src/wherry, and py.typed surely."""
    files = (path for path in (ROOT / "src/wherry").rglob("*") if path.is_file())
    return {"wherry/py.typed", "wherry/errors.py"} | {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def test_the_wheel_holds_the_package_with_its_sql_and_nothing_else(packages: Path) -> None:
    # Fails when the wheel's table in pyproject.toml keeps to *.py, as build backends like to do.
    [wheel] = packages.glob("*.whl")

    held = set(zipfile.ZipFile(wheel).namelist())

    assert needed() - held == set()
    assert {name.split("/")[0].split("-")[0] for name in held} == {"wherry"}


def test_the_source_package_holds_what_a_wheel_is_made_from(packages: Path) -> None:
    [sdist] = packages.glob("*.tar.gz")

    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    assert {f"src/{name}" for name in needed()} - held == set()
    assert {"pyproject.toml", "LICENSE", "README.md"} - held == set()
