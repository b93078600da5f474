"""Makes the virtual environments that `./run` works in, and knows when one is already right.

A stamp inside the environment says what it was made from. It is written last and taken away
first, so an environment without one was left half made, and is made anew. The lock file is only
taken when something has to be made: a warm `./run` touches nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
DEPENDENCIES_STAMP = ".made-from-lock"
PROJECT_STAMP = ".made-from-project"
WAIT_FOR_ANOTHER_SETUP_S = 900
SAID_EVERY_S = 5


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


def version_of(python: str | Path) -> str:
    """Return its version, such as "3.12.1", or "" if it does not start."""
    command = [str(python), "-I", "-S", "-c", "import platform; print(platform.python_version())"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()


def _stamp(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _dependencies_stamp(venv: Path) -> str:
    # The interpreter may be upgraded under us, and scripts carry the path of the checkout.
    version = version_of(python_of(venv))
    return _stamp(LOCK.read_bytes(), str(ROOT).encode(), version.encode())


def _project_stamp() -> str:
    # The entry points stand there; the code itself is installed in place.
    return _stamp((ROOT / "pyproject.toml").read_bytes())


def _read(venv: Path, name: str) -> str:
    try:
        return (venv / name).read_text()
    except OSError:
        return ""


def _is_ready(venv: Path) -> bool:
    return (
        _read(venv, DEPENDENCIES_STAMP) == _dependencies_stamp(venv)
        and _read(venv, PROJECT_STAMP) == _project_stamp()
    )


def _make(venv: Path, base_python: str) -> None:
    started = time.monotonic()
    if _read(venv, DEPENDENCIES_STAMP) != _dependencies_stamp(venv):
        _install_dependencies(venv, base_python)
    (venv / PROJECT_STAMP).unlink(missing_ok=True)
    _install(venv, base_python, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    (venv / PROJECT_STAMP).write_text(_project_stamp())
    _say(f"{venv.name} is ready after {time.monotonic() - started:.1f} s")


def _install_dependencies(venv: Path, base_python: str) -> None:
    half_made = not _read(venv, DEPENDENCIES_STAMP)
    if half_made or not version_of(python_of(venv)):
        _say(f"making {venv.name} with {base_python}: once, in a minute or so")
        shutil.rmtree(venv, ignore_errors=True)
    else:
        _say(f"bringing {venv.name} up to {LOCK.name}")
        (venv / DEPENDENCIES_STAMP).unlink()
    _install(venv, base_python, "--require-hashes", "-r", str(LOCK))
    (venv / DEPENDENCIES_STAMP).write_text(_dependencies_stamp(venv))


def _install(venv: Path, base_python: str, *what: str) -> None:
    """Install with uv where there is one, since it is fast; else, or if it fails, with pip."""
    python = str(python_of(venv))
    uv = shutil.which("uv")
    if uv is not None:
        made = python_of(venv).exists() or _works(base_python, "-m", "venv", "--without-pip", venv)
        if made and _works(uv, "pip", "install", "--quiet", "--python", python, *what):
            return
        _say("uv did not manage; going on with pip")
    if not _works(python, "-c", "import pip", quiet=True):
        if not _works(base_python, "-c", "import ensurepip", quiet=True):
            raise SetupFailed(
                f"{base_python} cannot make virtual environments, since its ensurepip is missing."
                " On Debian and Ubuntu: apt install python3-venv"
            )
        if not _works(base_python, "-m", "venv", venv):
            raise SetupFailed(f"{base_python} could not make {venv}; its own words stand above")
    if not _pip_works(python, *what):
        raise SetupFailed("pip could not install what Wherry needs; its own words stand above")


def _pip_works(python: str, *what: str) -> bool:
    """Install with pip, which takes minutes on a slow line; say now and then how far it is."""
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command = [python, "-I", "-m", "pip", "install", *options, *what]
    found, told_at = 0, time.monotonic()
    # It warns of much that is nobody's business as long as it manages.
    with TemporaryFile("w+") as complaints:
        try:
            pip = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=complaints, text=True
            )
        except OSError:
            return False
        with pip:
            for line in pip.stdout or ():
                found += line.startswith("Collecting ")
                if line.startswith("Installing ") and found:
                    _say(f"unpacking {found} packages")
                elif time.monotonic() > told_at + SAID_EVERY_S:
                    told_at = time.monotonic()
                    _say(f"{found} packages are here")
        if pip.returncode != 0:
            complaints.seek(0)
            sys.stderr.write(complaints.read())
    return pip.returncode == 0


def _works(program: str, *arguments: str | Path, quiet: bool = False) -> bool:
    command = [program, *map(str, arguments)]
    stderr = subprocess.DEVNULL if quiet else None
    try:
        return subprocess.run(command, cwd=ROOT, stderr=stderr, check=False).returncode == 0
    except OSError:
        return False


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
