"""Makes the virtual environments that `./run` works in, and knows when one is already right.

A stamp inside the environment says what it was made from. It is written last and taken away
first, so an environment without one was left half made, and is made anew. The lock file is only
taken when something has to be made: a warm `./run` touches nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
WAIT_FOR_ANOTHER_SETUP_S = 900


class SetupFailed(Exception):
    """The environment could not be made; the text says what to do."""


def python_of(venv: Path) -> Path:
    """Return where the interpreter of *venv* is."""
    return venv / "bin" / "python"


def ensure(venv: Path, base_python: str = sys.executable) -> Path:
    """Return the interpreter of *venv*, made from *base_python* and the lock if it is not right.

    Two callers at once are fine: the second waits for the first. Raises SetupFailed.
    """
    if _is_ready(venv):
        return python_of(venv)
    with _only_one_at_a_time():
        if not _is_ready(venv):
            _make(venv, base_python)
    return python_of(venv)


def _dependencies_stamp() -> str:
    """Say what the third-party packages are made from; scripts carry the path of the checkout."""
    digest = hashlib.sha256(LOCK.read_bytes())
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def _project_stamp() -> str:
    """Say what the installed project is made from: its entry points stand in pyproject.toml."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def _read(venv: Path, name: str) -> str:
    try:
        return (venv / name).read_text()
    except OSError:
        return ""


def _is_ready(venv: Path) -> bool:
    # A link to an interpreter that was uninstalled is not executable, hence not ready.
    return (
        os.access(python_of(venv), os.X_OK)
        and _read(venv, ".dependencies-stamp") == _dependencies_stamp()
        and _read(venv, ".project-stamp") == _project_stamp()
    )


def _make(venv: Path, base_python: str) -> None:
    started = time.monotonic()
    uv = shutil.which("uv")
    usable = os.access(python_of(venv), os.X_OK)
    if not usable or _read(venv, ".dependencies-stamp") != _dependencies_stamp():
        had_all = bool(_read(venv, ".dependencies-stamp"))
        (venv / ".dependencies-stamp").unlink(missing_ok=True)
        if not usable or not had_all:
            _say(f"making {venv.name} with {base_python} (once; well under a minute)")
            shutil.rmtree(venv, ignore_errors=True)
            _create(venv, base_python)
        else:
            _say(f"bringing {venv.name} up to {LOCK.name}")
        _install(venv, uv, "--require-hashes", "-r", str(LOCK))
        (venv / ".dependencies-stamp").write_text(_dependencies_stamp())
    (venv / ".project-stamp").unlink(missing_ok=True)
    _install(venv, uv, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    (venv / ".project-stamp").write_text(_project_stamp())
    _say(f"{venv.name} is ready after {time.monotonic() - started:.1f} s")


def _create(venv: Path, base_python: str) -> None:
    if base_python == sys.executable and importlib.util.find_spec("ensurepip") is None:
        raise SetupFailed(
            f"{base_python} cannot make virtual environments: its ensurepip is missing."
            " On Debian and Ubuntu: apt install python3-venv"
        )
    _call([base_python, "-m", "venv", str(venv)], "could not make a virtual environment")


def _install(venv: Path, uv: str | None, *what: str) -> None:
    """Install with uv where there is one, for its speed; with pip where there is none or it fails."""
    if uv is not None:
        into = [uv, "pip", "install", "--quiet", "--python", str(python_of(venv))]
        if subprocess.run([*into, *what], cwd=ROOT, check=False).returncode == 0:
            return
        _say("uv could not; trying with pip")
    pip = [str(python_of(venv)), "-I", "-m", "pip", "install", "-qq"]
    quiet = ["--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    _call([*pip, *quiet, *what], "pip could not install; its own words stand above")


def _call(command: list[str], failure: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SetupFailed(f"{failure} ({' '.join(command[:4])} …)")


@contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    path = ROOT / ".run.lock"
    try:
        file = path.open("a")
    except OSError as error:
        raise SetupFailed(
            f"cannot write into {ROOT} ({error.strerror}): clone Wherry into a folder of your own"
        ) from error
    with file:
        deadline = time.monotonic() + WAIT_FOR_ANOTHER_SETUP_S
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SetupFailed(f"another setup has held {path.name} for too long") from None
                if not told:
                    _say("waiting for another ./run that is setting up")
                    told = True
                time.sleep(0.1)
        # The lock goes with the file's closing, also when this process is killed.
        yield


def _say(text: str) -> None:
    print(f"run: {text}", file=sys.stderr, flush=True)
