"""What is measured of one peer: each function is one run, and gives its figures.

The database and the handlers' marks are asked, never a peer's own word. A run that takes too long
is cut: its rate is that of what did run, and `unfinished` says how many were left.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from bench.peers import crew
from bench.peers.crew import Producer, Work, Workers
from bench.peers.programs.marks import Marks
from bench.peers.programs.runtime import seconds_of
from bench.peers.roster import Peer
from bench.peers.stores import Postgres, Redis

CUT_SECONDS = 30.0
SETTLE_SECONDS = 12.0
WINDOW_SECONDS = 10.0
RATE = 50.0
SLOTS = 20


@dataclass(frozen=True)
class Ground:
    """All that runs need: the stores, and how each peer's program is started."""

    postgres: Postgres
    redis: Redis | None
    commands: Mapping[str, list[str]]

    def renewed(self, peer: Peer, tasks: int) -> Marks:
        """Empty a peer's store, and return new marks."""
        if peer.on_redis:
            assert self.redis is not None
            self.redis.ask("FLUSHALL")
        else:
            self.postgres.renew(peer, lambda at: self._setup(peer, at))
        return Marks.made(tasks)

    def producer(self, peer: Peer, marks: Marks, how: Work, act: str, *given: float) -> Producer:
        """Start a producer."""
        env = crew.environment(self._at(peer), marks, how)
        return Producer(self.commands[peer.name], env, act, *given)

    def workers(self, peer: Peer, marks: Marks, how: Work, count: int = 1) -> Workers:
        """Start workers."""
        env = crew.environment(self._at(peer), marks, how)
        return Workers(peer, self.commands[peer.name], env, count)

    def unfinished(self, peer: Peer, connection: Any) -> int:
        """How many tasks the store says are not done."""
        if peer.on_redis:
            assert self.redis is not None
            return sum(self.redis.size(name) for name in peer.unfinished.split())
        return int(connection.execute(peer.unfinished).fetchone()[0])

    def server_cpu(self, peer: Peer) -> float:
        """CPU seconds of the peer's store so far."""
        if peer.on_redis:
            assert self.redis is not None
            return crew.server_cpu(self.redis.pid)
        return crew.server_cpu(self.postgres.postmaster)

    @contextlib.contextmanager
    def connected(self, peer: Peer) -> Generator[Any]:
        """Give a connection to its database, if it has one."""
        if peer.on_redis:
            yield None
        else:
            with contextlib.closing(self.postgres.connect(peer)) as connection:
                yield connection

    def asked(self, peer: Peer) -> int:
        """How many statements, or commands, its store has had."""
        if peer.on_redis:
            assert self.redis is not None
            return self.redis.commands()
        return self.postgres.statements(peer)

    def _at(self, peer: Peer) -> Mapping[str, str]:
        if peer.on_redis:
            assert self.redis is not None
            return {"PEER_REDIS": self.redis.url}
        return self.postgres.environment(peer)

    def _setup(self, peer: Peer, at: Mapping[str, str]) -> None:
        env = crew.environment(at, None, Work())
        Producer(self.commands[peer.name], env, "setup").answer()


def drain(
    ground: Ground, peer: Peer, *, tuned: bool = True, processes: int = 1, scale: float = 1.0
) -> dict[str, float]:
    """Finish what is there. The clock runs from the first handler to an empty store."""
    tasks = max(10, int((peer.tuned if tuned else peer.by_default) * scale))
    return _drained(ground, peer, Work(tuned=tuned), processes, tasks)


def seed(ground: Ground, peer: Peer, *, tasks: int = 1600) -> dict[str, float]:
    """Finish tasks of 50 to 200 ms in 20 slots: how much of what is possible."""
    told = _drained(ground, peer, Work(sleeps=True, slots=SLOTS), 1, tasks)
    ideal = SLOTS * tasks / sum(seconds_of(task) for task in range(tasks))
    return {"of ideal": told["tasks/s"] / ideal, **told}


def enqueue(ground: Ground, peer: Peer, *, bulk: bool, scale: float = 1.0) -> dict[str, float]:
    """Enqueue by one producer without any worker: one by one for 2 s, or in calls of 1000."""
    tasks = int(peer.tuned * scale) if bulk else 200_000
    with ground.renewed(peer, tasks) as marks:
        before = ground.server_cpu(peer)
        if bulk:
            told = ground.producer(peer, marks, Work(), "fill", tasks).answer()
        else:
            told = ground.producer(peer, marks, Work(), "enqueue", 2.0).answer()
        server = ground.server_cpu(peer) - before
        with ground.connected(peer) as connection:
            # One by one the first is not in the time.
            wanted = told["made"] if bulk else told["made"] + 1
            lost = wanted - ground.unfinished(peer, connection)
    return {
        "tasks/s": told["made"] / told["seconds"],
        "client us": told["cpu"] / told["made"] * 1e6,
        "server us": server / told["made"] * 1e6,
        "not once": abs(lost),
    }


def latency(
    ground: Ground, peer: Peer, *, seconds: float = 10.0, open_seconds: float = 0.0
) -> dict[str, float]:
    """From before the enqueue (or before its commit) to the handler, at 50/s, in ms."""
    tasks = int(RATE * seconds)
    with ground.renewed(peer, tasks) as marks:
        with ground.workers(peer, marks, Work()) as workers:
            sleep(peer.boots)
            workers.must_live()
            given = [RATE, seconds, *([open_seconds] if open_seconds else [])]
            told = ground.producer(peer, marks, Work(), "steady", *given).answer()
            _until_all_ran(marks, workers, within_seconds=CUT_SECONDS)
        sent = told["sent"]
        waits = sorted((marks.began(i) - sent[i]) * 1000 for i in range(tasks) if marks.began(i))
        return {
            "p50": waits[len(waits) // 2],
            "p95": waits[len(waits) * 95 // 100],
            "p99": waits[len(waits) * 99 // 100],
            "not once": marks.faults(tasks),
        }


def idle(ground: Ground, peer: Peer, *, tuned: bool = True) -> dict[str, float]:
    """A worker with nothing to do, after a few tasks: what it asks a second, and spends."""
    tasks = 100 if tuned else 5
    how = Work(tuned=tuned)
    with ground.renewed(peer, tasks) as marks:
        with ground.workers(peer, marks, how) as workers:
            sleep(peer.boots)
            ground.producer(peer, marks, how, "fill", tasks).answer()
            _until_all_ran(marks, workers, within_seconds=CUT_SECONDS)
            sleep(3.0)
            asked, cpu, server = ground.asked(peer), workers.cpu(), ground.server_cpu(peer)
            sleep(WINDOW_SECONDS)
            asked = ground.asked(peer) - asked
            cpu, server = workers.cpu() - cpu, ground.server_cpu(peer) - server
            memory = workers.memory()
        return {
            # The question itself is a command of Redis, and is put to another database here.
            "queries/s": (asked - (2 if peer.on_redis else 0)) / WINDOW_SECONDS,
            "worker CPU %": cpu / WINDOW_SECONDS * 100,
            "server CPU %": server / WINDOW_SECONDS * 100,
            "memory MB": memory / 2**20,
        }


def held(ground: Ground, peer: Peer, *, snapshot: bool, seconds: float = 60.0) -> dict[str, float]:
    """Enqueue and drain at once, while another session holds a snapshot (or not)."""
    tasks = 4_000_000
    edges: list[tuple[float, int, float]] = []

    def sample() -> None:
        edges.append((monotonic(), marks.absorb(), ground.server_cpu(peer)))

    with ground.renewed(peer, tasks) as marks:
        with (
            ground.connected(peer) as holder,
            ground.workers(peer, marks, Work()) as workers,
        ):
            sleep(peer.boots)
            if snapshot:
                holder.execute("begin isolation level repeatable read")
                holder.execute("select count(*) from pg_class")
            feeder = ground.producer(peer, marks, Work(), "feed", seconds + 2, 2000, 500)
            began = monotonic() + 2.0
            for edge in (0.0, WINDOW_SECONDS, seconds - WINDOW_SECONDS, seconds):
                while monotonic() < began + edge:
                    marks.absorb()
                    sleep(0.002)
                sample()
            made = int(feeder.answer()["made"])
            give_up_at = monotonic() + CUT_SECONDS
            while marks.absorb() < made and monotonic() < give_up_at:
                sleep(0.01)
            workers.must_live()
        (t0, n0, c0), (t1, n1, c1), (t2, n2, c2), (t3, n3, c3) = edges
        first, last = (n1 - n0) / (t1 - t0), (n3 - n2) / (t3 - t2)
        return {
            "first/s": first,
            "last/s": last,
            "last/first": last / first if first else math.nan,
            "server us first": (c1 - c0) / max(n1 - n0, 1) * 1e6,
            "server us last": (c3 - c2) / max(n3 - n2, 1) * 1e6,
            "tasks": made,
            "not once": marks.faults(made),
        }


def _drained(ground: Ground, peer: Peer, how: Work, processes: int, tasks: int) -> dict[str, float]:
    with ground.renewed(peer, tasks) as marks:
        ground.producer(peer, marks, how, "fill", tasks).answer()
        if not peer.on_redis:
            ground.postgres.analyze(peer)
        with (
            ground.connected(peer) as connection,
            ground.workers(peer, marks, how, processes) as workers,
        ):
            _until_some_ran(marks, workers)
            client, server = workers.cpu(), ground.server_cpu(peer)
            counted_from = marks.absorb()
            _until_all_ran(marks, workers, within_seconds=CUT_SECONDS)
            ended = monotonic()
            left = ground.unfinished(peer, connection)
            give_up_at = ended + SETTLE_SECONDS
            while left and marks.ran() == tasks and ended < give_up_at:
                sleep(0.005)
                left = ground.unfinished(peer, connection)
                ended = monotonic()
            client = workers.cpu() - client
            server = ground.server_cpu(peer) - server
            memory = workers.memory()
            finished = tasks - left
            if peer.finished is not None:
                finished = int(connection.execute(peer.finished).fetchone()[0])
        times = marks.times(tasks)
        if left:
            ended = times[-1]
        counted = len(times) - counted_from
        if counted < tasks / 2:
            # Too little of it was seen to divide by.
            client = server = math.nan
        return {
            "tasks/s": len(times) / max(ended - times[0], 1e-9),
            "client us": client / max(counted, 1) * 1e6,
            "server us": server / max(counted, 1) * 1e6,
            "memory MB": memory / 2**20,
            "unfinished": left,
            "not once": max(marks.faults(len(times)) if left == 0 else 0, tasks - left - finished),
        }


def _until_some_ran(marks: Marks, workers: Workers) -> None:
    give_up_at = monotonic() + CUT_SECONDS
    while not marks.absorb():
        workers.must_live()
        if monotonic() > give_up_at:
            raise crew.PeerFailed(f"{workers.peer.name}: nothing ran")
        sleep(0.005)


def _until_all_ran(marks: Marks, workers: Workers, *, within_seconds: float) -> None:
    give_up_at = monotonic() + within_seconds
    while marks.absorb() < marks.tasks or marks.ran() < marks.tasks:
        workers.must_live()
        if monotonic() > give_up_at:
            return
        sleep(0.01)
