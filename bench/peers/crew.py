"""Processes of a run: workers of a peer that are watched, and producers that answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

from bench.peers import install
from bench.peers.programs.marks import Marks
from bench.peers.roster import Peer

TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 5.0


class PeerFailed(Exception):
    """A peer's program ended where it must not; the text has its last words."""


@dataclass(frozen=True)
class Work:
    """How a program is run: its settings, the kind of its tasks, and its slots, if told."""

    tuned: bool = True
    sleeps: bool = False
    slots: int = 0


def environment(at: Mapping[str, str], marks: Marks | None, how: Work) -> dict[str, str]:
    """Return all that a program needs to know."""
    told = {
        "PYTHONPATH": os.pathsep.join([str(install.ROOT), str(install.ROOT / "src")]),
        "PYTHONUNBUFFERED": "1",
        "PEER_PACKAGES": str(install.packages()),
        "PEER_SETTINGS": "tuned" if how.tuned else "defaults",
        "PEER_KIND": "sleep" if how.sleeps else "nothing",
        "PEER_SLOTS": str(how.slots),
    }
    if marks is not None:
        told |= {"PEER_MARKS": str(marks.path), "PEER_TASKS": str(marks.tasks)}
    return {**os.environ, **told, **at}


def start(command: list[str], env: Mapping[str, str], **more: Any) -> subprocess.Popen[str]:
    """Start a program in a session of its own, so that all it starts can be found and ended."""
    return subprocess.Popen(
        command, env=dict(env), cwd=install.ROOT, text=True, start_new_session=True, **more
    )


class Producer:
    """A producer of a peer, under way."""

    def __init__(self, command: list[str], env: Mapping[str, str], act: str, *given: float) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the answer
        self._process = start(
            [*command, act, *(f"{number:g}" for number in given)],
            env,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def answer(self, *, within_seconds: float = 150.0) -> dict[str, Any]:
        """Wait for its end and return what it told. Raises PeerFailed."""
        try:
            told, _ = self._process.communicate(timeout=within_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            told, _ = self._process.communicate()
        with self._said as said:
            if self._process.returncode != 0:
                said.seek(0)
                raise PeerFailed(f"a producer ended:\n{said.read()[-2000:]}")
        lines = told.strip().splitlines()
        return dict(json.loads(lines[-1])) if lines else {}


class Workers:
    """The worker processes of one peer; leaving the block ends them."""

    def __init__(self, peer: Peer, command: list[str], env: Mapping[str, str], count: int) -> None:
        self.peer = peer
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `__exit__`
        self._all = [
            start([*command, "work"], env, stdout=self._said, stderr=self._said)
            for _ in range(count)
        ]

    def must_live(self) -> None:
        """Raise PeerFailed if one of them has ended."""
        if any(one.poll() is not None for one in self._all):
            self._said.seek(0)
            raise PeerFailed(f"a worker of {self.peer.name} ended:\n{self._said.read()[-2000:]}")

    def cpu(self) -> float:
        """CPU seconds of all their processes so far."""
        leaders = {one.pid for one in self._all}
        return sum(_cpu(stat) for stat in _stats() if int(stat[3]) in leaders)

    def memory(self) -> int:
        """Bytes that they hold; what they share counts for each."""
        leaders = {one.pid for one in self._all}
        pages = sum(int(stat[21]) for stat in _stats() if int(stat[3]) in leaders)
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Ask them to stop, as an operator would, and end those that do not."""
        for one in self._all:
            one.send_signal(signal.SIGTERM)
        give_up_at = monotonic() + STOP_SECONDS
        for one in self._all:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(max(0.05, give_up_at - monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._said.close()


def server_cpu(postmaster: int | None) -> float:
    """CPU seconds of a server, its children and those that have ended; nan if unknown."""
    if postmaster is None:
        return float("nan")
    total = 0.0
    for stat in _stats():
        if int(stat[0]) == postmaster:
            total += sum(int(field) for field in stat[11:15]) / TICKS
    for stat in _stats():
        if int(stat[1]) == postmaster:
            total += _cpu(stat)
    return total


def _cpu(stat: list[str]) -> float:
    return (int(stat[11]) + int(stat[12])) / TICKS


def _stats() -> list[list[str]]:
    """The fields of each process's stat: its number first, then from its state on but for that."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        number, rest = text.split(" ", 1)
        # fields[1] is the parent, [3] the session, [11] and [12] ticks, [21] the resident pages.
        found.append([number, *rest.rsplit(")", 1)[1].split()[1:]])
    return found
