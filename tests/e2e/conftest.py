"""An embedded server of this run's own for whole programs, which find it by $WHERRY_HOME."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.servers import Fleet, Notes
from tests.embedded.support import wait_until_stopped


@pytest.fixture(scope="session")
def lasting_wherry_home() -> Iterator[Path]:
    """A folder with a short path that every user can enter; pytest's own are long and closed."""
    folder = Path(tempfile.mkdtemp(prefix="we-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def wherry_home(lasting_wherry_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of `embedded:`; its data stays for the next test, its server must be gone."""
    monkeypatch.setenv("WHERRY_HOME", str(lasting_wherry_home))
    monkeypatch.delenv("WHERRY_DSN", raising=False)
    yield lasting_wherry_home
    wait_until_stopped(lasting_wherry_home / "postgres")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Servers, and workers that have only a server."""
    with Fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture
def notes(dsn: str) -> Notes:
    """Where the handlers of remote workers write down that they began."""
    return Notes(dsn)
