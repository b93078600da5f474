"""Makes the locks from pyproject.toml: `python3 -m tools.lock [--upgrade]`.

requirements-dev.lock is what `./run` installs; requirements.lock is the part of it that runs in
production, with every extra. Versions stay as they are unless asked to move. Header and
annotations are left out, since they would carry the address of somebody's package index.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.venvs import LOCK, ROOT

FORM = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate")
QUIET = ("--no-header", "--quiet", "--all-extras")


def main(arguments: list[str]) -> int:
    """Write both locks; *arguments* go to uv, such as `--upgrade` or `--upgrade-package ruff`."""
    compile_ = [_uv(), "pip", "compile", *FORM, *QUIET, "pyproject.toml"]
    everything = [*compile_, "--group", "dev", "-o", LOCK.name, *arguments]
    runtime = [*compile_, "-c", LOCK.name, "-o", "requirements.lock", *arguments]
    for command in (everything, runtime):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            return done.returncode
    print("lock: made requirements-dev.lock and requirements.lock")
    return 0


def _uv() -> str:
    """Return uv from PATH, or from an environment of its own: nothing else here needs it."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    venv = ROOT / ".venv-uv"
    uv = venv / "bin" / "uv"
    if not uv.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(Path(venv, "bin/pip")), "install", "-qq", "uv"], check=True)
    return str(uv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
