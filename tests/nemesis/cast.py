"""The processes of a run, who starts them, and who starts again those that have died.

Each life of a process has a name of its own (`worker-2.3` is the third life of the second worker),
under which its history is kept.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests.nemesis import doors, history, mutants, player
from wherry.config import DSN_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "door": "serving",
    "worker": "worker",
    "producer": "producer",
    "hasty": "hasty",
    "hand": "by_hand",
    "pourer": "pourer",
    "drainer": "drainer",
}
# Of one worker, which meets both whenever a table is locked.
IMPATIENT = "-c statement_timeout=500ms -c lock_timeout=100ms"


@dataclass(slots=True)
class Ended:
    """How one life of a process ended, and what was done to it."""

    name: str
    code: int
    seconds: float
    killed: bool
    dismissed: bool


@dataclass(slots=True)
class Actor:
    """One process, over all its lives."""

    name: str
    life: int = 0
    process: subprocess.Popen[bytes] | None = None
    began_at: float = 0.0
    resume_at: float | None = None
    killed: bool = False
    dismissed: bool = False

    @property
    def role(self) -> str:
        """Return what it is: door (a server of ours), worker, producer, hasty or hand."""
        return self.name.partition("-")[0]

    @property
    def on_wire(self) -> bool:
        """Whether its replies can be lost: those of who enqueues, of a worker, a drainer."""
        return self.role in ("producer", "hasty", "pourer") or self.name in (
            "worker-2",
            "drainer-2",
        )

    @property
    def is_far(self) -> bool:
        """Whether it gets its tasks through a server, and has no database for them."""
        return self.name == doors.FAR_WORKER

    @property
    def pid(self) -> int:
        """The process id of the present life."""
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        """Whether it is alive, if perhaps stopped."""
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class Cast:
    """All processes of a run."""

    folder: Path
    dsn: str
    wire_dsn: str
    # Where the server listens, and where others find it, which is in front of it.
    port: int
    address: str
    seed: int
    mutant: str | None
    actors: list[Actor]
    ended: list[Ended] = field(default_factory=list)
    # The standard input of all: it ends when we do, however we end (see player.py).
    lifeline: tuple[int, int] = field(default_factory=os.pipe)

    def start(self, actors: Iterable[Actor]) -> None:
        """Start these, in a new life."""
        for actor in actors:
            actor.life += 1
            actor.began_at, actor.resume_at = time.monotonic(), None
            actor.killed = actor.dismissed = False
            life = f"{actor.name}.{actor.life}"
            dsn = self.wire_dsn if actor.on_wire else self.dsn
            if actor.name == "worker-3":
                dsn = make_conninfo(dsn, options=IMPATIENT)
            with (self.folder / f"{life}.log").open("wb") as log:
                actor.process = subprocess.Popen(
                    [sys.executable, "-m", f"tests.nemesis.{MODULES[actor.role]}", actor.name],
                    cwd=ROOT,
                    env={
                        **os.environ,
                        DSN_VARIABLE: self.address if actor.is_far else dsn,
                        doors.DATABASE_VARIABLE: dsn,
                        doors.ADDRESS_VARIABLE: self.address,
                        doors.PORT_VARIABLE: str(self.port),
                        history.FOLDER_VARIABLE: str(self.folder),
                        history.NAME_VARIABLE: life,
                        player.SEED_VARIABLE: f"{self.seed}/{life}",
                        mutants.VARIABLE: self.mutant or "",
                    },
                    stdin=self.lifeline[0],
                    stdout=log,
                    stderr=log,
                )

    def revive(self, *roles: str) -> None:
        """Start those of these roles that have died."""
        self.bury()
        self.start(a for a in self.actors if a.role in roles and a.process is None)

    def bury(self) -> None:
        """Note how those that have died ended, and wake those whose pause is over."""
        for actor in self.actors:
            if actor.process is None:
                continue
            if actor.resume_at is not None and time.monotonic() >= actor.resume_at:
                self.resume(actor)
            code = actor.process.poll()
            if code is not None:
                lived = time.monotonic() - actor.began_at
                life = f"{actor.name}.{actor.life}"
                self.ended.append(Ended(life, code, lived, actor.killed, actor.dismissed))
                actor.process = None

    def of(self, *roles: str) -> list[Actor]:
        """Return the actors of these roles that run."""
        return [actor for actor in self.actors if actor.role in roles and actor.runs]

    def kill(self, actor: Actor) -> None:
        """Shoot a process."""
        actor.killed = True
        self._send(actor, signal.SIGKILL)

    def pause(self, actor: Actor, *, seconds: float) -> None:
        """Stop a process in its tracks for a while."""
        actor.resume_at = time.monotonic() + seconds
        self._send(actor, signal.SIGSTOP)

    def resume(self, actor: Actor) -> None:
        """Let a stopped process go on."""
        actor.resume_at = None
        self._send(actor, signal.SIGCONT)

    def tell_of_end(self) -> None:
        """Let all who act on their own know that the run is coming to its end."""
        (self.folder / player.ENDING).touch()
        for actor in self.of(*MODULES):
            # They may wait for one another.
            self.resume(actor)

    def dismiss(self, actor: Actor) -> None:
        """Ask a process to end."""
        actor.dismissed = True
        self.resume(actor)
        self._send(actor, signal.SIGTERM)

    def wait(self, *roles: str, seconds: float) -> list[str]:
        """Wait for these to end; returns those that did not, which are killed then."""
        ends_at = time.monotonic() + seconds
        late = []
        for actor in self.of(*roles):
            with suppress(subprocess.TimeoutExpired):
                assert actor.process is not None
                actor.process.wait(max(0.01, ends_at - time.monotonic()))
            if actor.runs:
                late.append(actor.name)
                self.kill(actor)
        self.bury()
        return late

    def close(self) -> None:
        """Leave no process behind, whatever happened."""
        for actor in self.of(*MODULES):
            self.kill(actor)
            assert actor.process is not None
            actor.process.wait(10)
        for end in self.lifeline:
            os.close(end)

    def _send(self, actor: Actor, number: signal.Signals) -> None:
        if actor.process is not None:
            actor.process.send_signal(number)


def roles(*, workers: int, producers: int, drainers: int = 0) -> Iterator[Actor]:
    """Return the actors of a run; of servers, and of clients that misbehave, there is one each.

    *drainers*: so many workers for a bulk, and one who pours it.
    """
    yield Actor("door-1")
    yield from (Actor(f"worker-{n}") for n in range(1, workers + 1))
    yield from (Actor(f"producer-{n}") for n in range(1, producers + 1))
    yield Actor("hasty-1")
    yield Actor("hand-1")
    yield from (Actor(f"drainer-{n}") for n in range(1, drainers + 1))
    if drainers:
        yield Actor("pourer-1")
