"""What CI calls leaves nothing behind that goes on without it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.facts import wait_for

ROOT = Path(__file__).resolve().parents[2]
# The script starts a score of processes, and a machine may be late at each.
PATIENCE_SECONDS = 100.0
# Without a process for each file: `timeout` tells everybody of its group, and would end that, too.
VERBS = """\
#!/bin/sh
case $1 in check | browser) ;; *) exit 0 ;; esac
trap ": >$1.told; exit 143" TERM
: >$1.began
sleep 300 &
wait
"""


def stub(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_what_runs_beside_is_told_to_stop_when_the_script_is(tmp_path: Path) -> None:
    stub(tmp_path / ".ci/run", (ROOT / ".ci/run").read_text())
    stub(tmp_path / "run", VERBS)
    stub(tmp_path / ".venv/bin/python")
    for name in ("promtool", "chromium", "apt-get"):
        stub(tmp_path / "bin" / name)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    script = subprocess.Popen(
        [str(tmp_path / ".ci/run")],
        env={**os.environ, "PATH": path, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    try:
        for verb in ("check", "browser"):
            wait_for((tmp_path / f"{verb}.began").exists, seconds=PATIENCE_SECONDS)

        script.send_signal(signal.SIGTERM)

        assert script.wait(timeout=PATIENCE_SECONDS) != 0
        wait_for((tmp_path / "check.told").exists, seconds=PATIENCE_SECONDS)
        assert list(tmp_path.glob("tmp.*")) == []
    finally:
        os.killpg(script.pid, signal.SIGKILL)
