"""Examples in other languages, run against a real server; a language that is not here is said."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

GO_PACKAGES = Path("/usr/share/gocode/src/google.golang.org/grpc")

NEEDS = {
    "test_node.py": ("node", "npm"),
    "test_go.py": ("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"),
}
MISSING = {
    file: [name for name in programs if shutil.which(name) is None]
    for file, programs in NEEDS.items()
}
if not GO_PACKAGES.exists():
    # Debian's golang-google-grpc-dev; modules from elsewhere are not pinned here.
    MISSING["test_go.py"].append("Go's grpc package")
collect_ignore = [file for file, missing in MISSING.items() if missing]


def pytest_report_header() -> str:
    said = [
        f"{file} is not run, for want of {', '.join(missing)}"
        for file, missing in MISSING.items()
        if missing
    ]
    return f"examples: {'; '.join(said) or 'all languages are here'}"


@pytest.fixture
def server(dsn: str) -> Iterator[str]:
    """Where a server on the test's database answers gRPC, as host:port."""
    command = [sys.executable, "-m", "wherry", "server", "--grpc", "127.0.0.1:0", "--http", "off"]
    with subprocess.Popen([*command, "--dsn", dsn], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = ""
            while not (found := re.search(r"gRPC on (\S+)", said)):
                line = process.stderr.readline()
                assert line, f"the server ended: {said}"
                said += line
            yield found[1]
        finally:
            process.terminate()
            # Its pipe must not fill while it ends.
            process.communicate(timeout=30)
