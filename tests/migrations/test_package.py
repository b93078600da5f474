"""The migrations and the statements come with the package, whichever way it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from wherry.migrations.files import read_folder

ROOT = Path(__file__).resolve().parents[2]
MIGRATE = """\
import sys, wherry
from wherry import migrations
print(wherry.__file__)
print([step.name for step in migrations.migrate(sys.argv[1])])
print(migrations.check(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=100,
    )
    return folder


def test_a_wheel_migrates_without_being_unpacked(built: Path, dsn: str) -> None:
    """MIG-10: imported from the archive as it is, like from a zipapp."""
    [wheel] = built.glob("*.whl")

    done = subprocess.run(
        [sys.executable, "-c", MIGRATE, dsn],
        env={**os.environ, "PYTHONPATH": str(wheel)},
        cwd=built,
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )

    where, applied, version = done.stdout.splitlines()
    names = [file.name for file in read_folder()]
    assert where.startswith(str(wheel))
    assert (applied, version) == (str(names), str(len(names)))


def test_the_wheel_holds_every_statement_and_every_part_of_one(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("wherry/sql/")}

    sources = (ROOT / "src" / "wherry" / "sql").rglob("*.sql")
    assert held == {path.relative_to(ROOT / "src").as_posix() for path in sources}


def test_the_source_archive_holds_every_migration(built: Path) -> None:
    """MIG-10: who builds from source gets them too."""
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        held = {Path(name).name for name in packed.getnames() if "/migrations/" in name}

    assert {f"{file.name}.sql" for file in read_folder()} <= held
