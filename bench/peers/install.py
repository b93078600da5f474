"""Brings the peers: an environment for each below .venv-peers, from exact versions.

Nothing here asks whether a peer is wanted: what cannot be had on this machine is told with the
reason, and the rest is measured without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.peers.roster import Peer

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".venv-peers"
PINS = Path(__file__).with_name("requirements")
PROGRAMS = Path(__file__).with_name("programs")
STAMP = ".made-from"
MINORS = ("3.14", "3.13", "3.12", "3.11")


class NotHere(Exception):
    """A peer cannot be measured on this machine; the text says why."""


def base_python() -> str:
    """The newest Python of this machine: one for all, and some peers want a new one."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in MINORS:
        kept = [str(path) for path in sorted(pyenv.glob(f"{minor}.*/bin/python"))]
        for python in [*kept, shutil.which(f"python{minor}") or ""]:
            if python and _succeeds(python, "-c", "import ensurepip"):
                return python
    return sys.executable


def pins(peer: Peer) -> Path:
    """The file with a peer's exact versions."""
    return PINS / ("package.json" if peer.on_node else f"{peer.name}.txt")


def ready(peer: Peer) -> list[str]:
    """Return the command that starts a peer's program, made if need be. Raises NotHere."""
    if peer.on_redis and shutil.which("redis-server") is None:
        raise NotHere("there is no redis-server (on Debian: apt install redis-server)")
    if peer.on_node:
        return [_node_packages(peer), str(PROGRAMS / f"use_{peer.name}.mjs")]
    return [_environment(peer), "-m", f"bench.peers.programs.use_{peer.name}"]


def packages() -> Path:
    """The folder in which Node's packages are."""
    return CACHE / "node"


def version(peer: Peer) -> str:
    """The version that is measured, as it is pinned."""
    if peer.name == "wherry":
        return "this tree"
    if not peer.on_node:
        lines = pins(peer).read_text().splitlines()
        return next(one.split("==")[1] for one in lines if one.startswith(f"{peer.name}=="))
    asked = {"graphile": "graphile-worker", "pgboss": "pg-boss"}[peer.name]
    line = next(line for line in pins(peer).read_text().splitlines() if f'"{asked}"' in line)
    return line.split('"')[3]


def _environment(peer: Peer) -> str:
    base, folder = base_python(), CACHE / peer.name
    python = str(folder / "bin" / "python")
    wanted = _stamp(pins(peer), base)
    if _read(folder / STAMP) != wanted:
        print(f"peers: making {folder.name}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _must([base, "-m", "venv", str(folder)])
        pip = [python, "-I", "-m", "pip", "install", "-qq", "--no-input"]
        _must([*pip, "--disable-pip-version-check", "-r", str(pins(peer))])
        (folder / STAMP).write_text(wanted)
    return python


def _node_packages(peer: Peer) -> str:
    npm, folder = shutil.which("npm"), packages()
    if npm is None:
        raise NotHere("there is no npm")
    wanted = _stamp(pins(peer), npm)
    if _read(folder / STAMP) != wanted:
        print("peers: making node", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(pins(peer), folder / "package.json")
        # The Node that runs them is one of the packages: this machine's own may be too old.
        _must([npm, "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"], folder)
        (folder / STAMP).write_text(wanted)
    return str(folder / "node_modules" / "node" / "bin" / "node")


def _must(command: list[str], folder: Path = ROOT) -> None:
    quietly: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=folder, check=False, **quietly)
    except OSError as error:
        raise NotHere(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        raise NotHere(f"{Path(command[0]).name} could not install it: {last}")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _stamp(file: Path, *more: str) -> str:
    return hashlib.sha256(
        "\0".join([file.read_text(), str(CACHE.resolve()), *more]).encode()
    ).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
