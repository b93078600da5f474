"""Writes the wire code from proto/: `./run proto`, or `--check` to see that it is current.

The compiler lives in an environment of its own, .venv-proto, made from requirements-proto.lock:
it needs an older protobuf than what runs, and code that it makes must load under both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.venvs import ROOT

PROTO = ROOT / "proto"
MADE = ROOT / "src/wherry/wire/v1"
LOCK = ROOT / "requirements-proto.lock"
VENV = ROOT / ".venv-proto"
HEADER = "# Made from proto/ by `./run proto`: change that, not this.\n"


def main(arguments: list[str]) -> int:
    """Write the generated files, or with `--check` tell which are out of date."""
    fresh = _generated(_compiler())
    stale = [name for name, text in fresh.items() if _read(MADE / name) != text]
    gone = sorted({path.name for path in MADE.glob("*_pb2*")} - set(fresh))
    if "--check" in arguments:
        for name in [*stale, *gone]:
            print(f"proto: {name} is out of date: run `./run proto`")
        print(f"proto: {len(fresh)} files, {len(stale) + len(gone)} out of date")
        return 1 if stale or gone else 0
    MADE.mkdir(parents=True, exist_ok=True)
    for name, text in fresh.items():
        (MADE / name).write_text(text)
    for name in gone:
        (MADE / name).unlink()
    print(f"proto: wrote {len(stale)} of {len(fresh)} files")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _compiler() -> Path:
    python = VENV / "bin" / "python"
    stamp = VENV / ".made-from-lock"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        pip = [str(python), "-I", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
        stamp.write_bytes(LOCK.read_bytes())
    return python


def _generated(python: Path) -> dict[str, str]:
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        outs = [f"--{kind}_out={folder}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
        subprocess.run(
            [str(python), "-m", "grpc_tools.protoc", f"-I{PROTO}", *outs, *sources],
            env={"PATH": f"{python.parent}:/usr/bin:/bin"},
            stderr=subprocess.DEVNULL,
            check=True,
        )
        made = sorted(Path(folder, "wherry/v1").iterdir())
        # Ours is a package inside another one; the compiler knows only the proto's own name.
        return {path.name: HEADER + _moved(path.read_text()) for path in made}


def _moved(text: str) -> str:
    return text.replace("from wherry.v1 import", "from wherry.wire.v1 import").replace(
        "import wherry.v1.", "import wherry.wire.v1."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
