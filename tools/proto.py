"""Writes the wire code from proto/: `./run proto`, or `--check` to see that it is current.

`--contract` lints the contract and compares it with the one that was released: what would break a
client that was made from that fails. `--release` makes the contract as it stands the released one;
that is for a release, and for nothing else.

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
RELEASED = PROTO / "released.binpb"
HEADER = "# Made from proto/ by `./run proto`: change that, not this.\n"


def main(arguments: list[str]) -> int:
    """Write the generated files, or with `--check` tell which are out of date."""
    if "--contract" in arguments:
        return contract()
    if "--release" in arguments:
        return _release()
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


def contract(proto: Path = PROTO, *, released: Path = RELEASED) -> int:
    """Lint the contract in *proto*; say what would break a client of the released one."""
    buf = _buf()
    lint = subprocess.run([buf, "lint", proto], check=False)
    breaking = subprocess.run([buf, "breaking", proto, "--against", released], check=False)
    if lint.returncode or breaking.returncode:
        return 1
    print("proto: the contract is tidy, and breaks no client of the released one")
    return 0


def _release() -> int:
    # Without the comments: they may change at any time.
    command = [str(_buf()), "build", str(PROTO), "--exclude-source-info", "-o", str(RELEASED)]
    subprocess.run(command, check=True)
    print(f"proto: {RELEASED.relative_to(ROOT)} is the contract as it stands")
    return 0


def _buf() -> Path:
    # A check runs in the environment that has it; `./run proto` may run outside of it.
    beside = Path(sys.executable).parent / "buf"
    return beside if beside.exists() else ROOT / ".venv/bin/buf"


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
