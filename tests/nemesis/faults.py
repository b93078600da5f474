"""What goes wrong in a run, and when: a plan drawn from the seed, and the one who carries it out.

The plan holds each kind of fault several times, so that no run passes only because its dice were
kind. Who is hit is drawn when the moment has come, among those who are there then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from tests.nemesis.cast import Actor, Cast
from tests.nemesis.history import History
from tests.nemesis.server import Server
from tests.nemesis.tasks import LEASE_SECONDS
from tests.nemesis.wire import Wire

ROUND_SECONDS = 20.0
# Of a bulk, which is to get ahead between them.
BULK_ROUND_SECONDS = 50.0
# How often each happens in a round. The embedded server is given up when it dies six times a
# minute, of which a restart is one; a shot backend is mended by the server itself.
EACH_ROUND = {
    "kill a worker": 2,
    "pause a worker": 3,
    "dismiss a worker": 1,
    "kill a producer": 2,
    "pause a producer": 1,
    "kill the hand": 1,
    "pause the hand": 1,
    "terminate backends": 3,
    "kill a backend": 1,
    "restart the server": 1,
    "lock a table": 2,
    "lose replies": 3,
    "kill a door": 1,
    "pause a door": 1,
    "dismiss a door": 1,
    "lose a door's replies": 2,
    "delay what is sent": 1,
    "hold what is sent": 1,
    "exhaust connections": 1,
    "cancel statements": 2,
}
# And if there is a bulk.
EACH_ROUND_OF_BULK = {
    "kill a drainer": 2,
    "pause a drainer": 1,
    "dismiss a drainer": 1,
    "kill a pourer": 1,
}
TABLES: tuple[LiteralString, ...] = ("live", "lease", "key", "finished")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: *at* so many seconds from the start."""

    at: float
    kind: str


def plan(rng: random.Random, *, seconds: float, bulk: bool = False) -> list[Fault]:
    """Return the faults of a run that lasts so long, in order."""
    faults: list[Fault] = []
    each_round = EACH_ROUND | (EACH_ROUND_OF_BULK if bulk else {})
    rounds = max(1, round(seconds / (BULK_ROUND_SECONDS if bulk else ROUND_SECONDS)))
    length = seconds / rounds
    for number in range(rounds):
        kinds = [kind for kind, times in each_round.items() for _ in range(times)]
        rng.shuffle(kinds)
        # At the start there is nothing to hurt yet.
        moments = sorted(rng.uniform(1.5 if number == 0 else 0.0, length) for _ in kinds)
        faults += [
            Fault(number * length + at, kind) for at, kind in zip(moments, kinds, strict=True)
        ]
    return faults


class Nemesis:
    """Carries out a plan: `due` is what is still to come, `done` counts what took effect."""

    def __init__(
        self,
        faults: list[Fault],
        cast: Cast,
        server: Server,
        wire: Wire,
        door_wire: Wire,
        rng: random.Random,
        history: History,
    ) -> None:
        self.due = list(faults)
        self._history = history
        self._cast = cast
        self._server = server
        self._wire = wire
        self._door_wire = door_wire
        self._hoarding_until: float | None = None
        self._rng = rng
        self._locks: list[tuple[float, psycopg.Connection[Any]]] = []
        self.done: Counter[str] = Counter()

    def act(self, *, now: float) -> None:
        """Do what is due *now* seconds after the start; a fault that hits nobody stays due."""
        self.unlock(now=now)
        for fault in [fault for fault in self.due if fault.at <= now]:
            try:
                hit = self._do(fault.kind, now)
            except psycopg.OperationalError:
                # The one before has taken our own connection along: it stays due.
                continue
            if hit:
                self._history.note("fault", kind=fault.kind)
                self.done[fault.kind] += hit
                self.due.remove(fault)

    def unlock(self, *, now: float) -> None:
        """Let go of the tables, and the connections, whose time is over."""
        if self._hoarding_until is not None and self._hoarding_until <= now:
            self._server.restore_connections()
            self._hoarding_until = None
        for lock in [lock for lock in self._locks if lock[0] <= now]:
            lock[1].close()
            self._locks.remove(lock)

    def _do(self, kind: str, now: float) -> int:
        match kind.split():
            case ["lock", *_]:
                locked = self._server.lock(self._rng.choice(TABLES))
                if locked is None:
                    return 0
                self._locks.append((now + self._rng.uniform(0.3, 1.2) * LEASE_SECONDS, locked))
                return 1
            case ["lose", "replies"]:
                self._wire.lose_replies(self._rng.uniform(0.05, 0.8))
                return 1
            case ["lose", *_]:
                self._door_wire.lose_replies(self._rng.uniform(0.05, 0.8))
                return 1
            case ["delay", *_]:
                for wire in (self._wire, self._door_wire):
                    wire.lag(self._rng.uniform(0.01, 0.2), seconds=LEASE_SECONDS)
                return 1
            case ["hold", *_]:
                for wire in (self._wire, self._door_wire):
                    wire.hold(self._rng.uniform(0.5, 1.3) * LEASE_SECONDS)
                return 1
            case ["exhaust", _]:
                if self._hoarding_until is not None:
                    return 0
                self._hoarding_until = now + self._rng.uniform(0.2, 1.0) * LEASE_SECONDS
                return self._server.exhaust(self._rng)
            case ["cancel", _]:
                return self._server.cancel_statements(self._rng, most=3)
            case ["dismiss", _, role]:
                return self._on_one(role, self._cast.dismiss)
            case [
                "kill",
                "a" | "the",
                "worker" | "producer" | "hand" | "door" | "drainer" | "pourer" as role,
            ]:
                return self._on_one(role, self._cast.kill)
            case ["pause", "a" | "the", role]:
                seconds = self._rng.uniform(1.1, 1.8) * LEASE_SECONDS
                return self._on_one(role, lambda actor: self._cast.pause(actor, seconds=seconds))
            case ["terminate", _]:
                return self._server.terminate_backends(self._rng, most=self._rng.randint(1, 6))
            case ["restart", *_]:
                return self._server.restart()
            case _:
                return self._server.kill_backend(self._rng)

    def _on_one(self, role: str, act: Callable[[Actor], object]) -> int:
        here = [actor for actor in self._cast.of(role) if actor.resume_at is None]
        if not here:
            return 0
        act(self._rng.choice(here))
        return 1
