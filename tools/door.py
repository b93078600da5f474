"""What each verb of `./run` does.

A verb that hands over to a program replaces this process by it, so that signals and exit codes
are that program's own.
"""

from __future__ import annotations

import os
import sys

from tools import venvs

ROOT = venvs.ROOT
VENV = ROOT / ".venv"


def main(arguments: list[str]) -> int:
    """Run one verb and return its exit code."""
    try:
        python = venvs.ensure(VENV)
    except venvs.SetupFailed as failed:
        print(f"run: {failed}", file=sys.stderr)
        return 1
    if arguments[:1] == ["setup"]:
        return 0
    if arguments[:1] == ["test"]:
        os.chdir(ROOT)
        os.execv(python, [str(python), "-m", "pytest", *arguments[1:]])
    print("run: verbs: setup, test", file=sys.stderr)
    return 2
