"""Runs the tests that need a real Chromium: `./run browser [ARGS]`, where ARGS go to pytest.

pip cannot bring a browser, so that one of the machine is used; who has none is told how to get it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from tools.venvs import ROOT

VARIABLE = "WHERRY_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def main(python: Path, arguments: list[str]) -> int:
    """Hand over to pytest, with a browser; says what to install where there is none."""
    found = chromium()
    if found is None:
        print(
            "run: there is no Chromium here: on Debian and Ubuntu `apt-get install chromium` (as"
            f" root) brings one; or name yours in ${VARIABLE}",
            file=sys.stderr,
        )
        return 1
    os.environ[VARIABLE] = found
    os.chdir(ROOT)
    paths = [] if any(given.startswith("tests") for given in arguments) else ["tests/browser"]
    return _become([str(python), "-m", "pytest", "--browser", "-p", "no:xdist", *paths, *arguments])


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)


def chromium() -> str | None:
    """Return the path of a Chromium of this machine."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)
