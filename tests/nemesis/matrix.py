"""`./run torture --matrix`: what each kind of crash does, and how long until work goes on.

Each fault is made several times on a stage with a pourer and two workers, in calm. Afterwards the
bulk is judged as in any run, so a row stands only for a fault after which no promise was broken.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import psycopg

from tests.nemesis.calm import LEAVE_SECONDS, Calm
from tests.nemesis.cast import ROOT
from tests.nemesis.failover import fail_over
from tests.nemesis.server import OBSERVER
from tests.nemesis.tasks import LEASE_SECONDS

PAGE = ROOT / "docs" / "explain" / "crash-matrix.md"
# So long a fault lasts that ends by itself.
FAULT_SECONDS = 3.0
ON_ITS_WAY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Crash:
    """A kind of fault: what is seen of it, and from when until when its seconds count."""

    name: str
    seen: str
    counted: str
    happen: Callable[[Calm], float]


def _until_work(calm: Calm, since: float) -> float:
    calm.wait_for_tasks(1)
    return time.monotonic() - since


def _leased_by(calm: Calm, worker: str) -> list[int]:
    with calm.node.connect() as connection:
        rows = connection.execute(
            "select id from wherry.tasks where state = 'leased' and lease_owner = %s", (worker,)
        ).fetchall()
    return [int(id_) for (id_,) in rows]


def _worker(calm: Calm, number: signal.Signals) -> float:
    """Hit a worker that holds tasks; until each of these has ended elsewhere."""
    [victim, *_] = calm.cast.of("drainer")
    process = victim.process
    assert process is not None
    held: list[int] = []
    while not held:
        # It holds some at almost any moment; what it has reported is on its way for a moment more.
        process.send_signal(signal.SIGSTOP)
        time.sleep(ON_ITS_WAY_SECONDS)
        held = _leased_by(calm, victim.name)
        if not held:
            process.send_signal(signal.SIGCONT)
            calm.wait_for_tasks(500)
    victim.killed = True
    # When it is hit it has been still already.
    since = time.monotonic() - ON_ITS_WAY_SECONDS
    for each in (number, signal.SIGCONT):
        if number is not signal.SIGSTOP:
            process.send_signal(each)
    asked = "select count(*) from wherry.tasks where finished_at is null and id = any(%s)"

    def are_over() -> bool:
        with calm.node.connect() as connection:
            row = connection.execute(asked, (held,)).fetchone()
        return row == (0,)

    calm.node.wait_for(are_over)
    took = time.monotonic() - since
    process.send_signal(signal.SIGCONT)
    if number is signal.SIGSTOP:
        victim.killed = False
    else:
        process.wait(LEAVE_SECONDS)
    calm.cast.revive("drainer")
    return took


def _restart(calm: Calm) -> float:
    calm.node.quit()
    time.sleep(FAULT_SECONDS)
    calm.node.start()
    return _until_work(calm, time.monotonic())


def _backend(calm: Calm) -> float:
    with calm.node.connect() as connection:
        row = connection.execute(
            "select pid from pg_stat_activity where application_name like 'wherry leasing%'"
        ).fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGKILL)
    since = time.monotonic()
    # It still answers for a moment.
    with suppress(psycopg.Error), calm.node.connect() as connection:
        connection.execute("select pg_sleep(60)")
    return _until_work(calm, since)


def _terminate(calm: Calm) -> float:
    with calm.node.connect() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where backend_type = 'client backend' and application_name <> %s",
            (OBSERVER,),
        )
    return _until_work(calm, time.monotonic())


def _exhaust(calm: Calm) -> float:
    hoard = [calm.node.connect()]
    hoard[0].execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    ends_at = time.monotonic() + FAULT_SECONDS
    while time.monotonic() < ends_at:
        with suppress(psycopg.OperationalError):
            hoard.append(calm.node.connect())
    for connection in hoard:
        connection.close()
    return _until_work(calm, time.monotonic())


def _lock(calm: Calm) -> float:
    with calm.node.connect() as connection, connection.transaction():
        connection.execute("lock table wherry.live in access exclusive mode")
        time.sleep(FAULT_SECONDS)
    return _until_work(calm, time.monotonic())


def _lose_replies(calm: Calm) -> float:
    calm.wire.lose_replies(FAULT_SECONDS)
    time.sleep(FAULT_SECONDS)
    return _until_work(calm, time.monotonic())


def _half_open(calm: Calm) -> float:
    since = time.monotonic()
    calm.wire.abandon()
    # Others enqueue as before.
    calm.feed(500)
    took = _until_work(calm, since)
    for actor in calm.cast.of("pourer"):
        # It would wait for its answer for longer; see the next.
        calm.cast.kill(actor)
        calm.cast.wait("pourer", seconds=LEAVE_SECONDS)
    return took


def _half_open_to_an_app(calm: Calm) -> float:
    since, before = time.monotonic(), calm.told()
    calm.wire.abandon()
    time.sleep(0.2)
    before = calm.told()
    calm.node.wait_for(lambda: calm.told() > before)
    return time.monotonic() - since


def _fill_disk(calm: Calm) -> float:
    ballast = calm.place / "ballast"
    with ballast.open("wb") as into, suppress(OSError):
        while True:
            into.write(bytes(1024 * 1024))
            into.flush()
    time.sleep(FAULT_SECONDS)
    ballast.unlink()
    since = time.monotonic()
    if not calm.node.runs:
        calm.node.start()
        since = time.monotonic()
    return _until_work(calm, since)


CRASHES = (
    Crash(
        f"a worker is killed (`kill -9`); its lease lasts {LEASE_SECONDS:g} s",
        "its tasks are taken back when the lease has run out; the attempt counts",
        "the kill, until all that it held has ended elsewhere",
        lambda calm: _worker(calm, signal.SIGKILL),
    ),
    Crash(
        "a worker is told to end (SIGTERM)",
        "it finishes what runs and gives back the rest",
        "the signal, until all that it held has ended",
        lambda calm: _worker(calm, signal.SIGTERM),
    ),
    Crash(
        f"a worker is frozen; its lease lasts {LEASE_SECONDS:g} s",
        "as if it were killed; what it reports when it wakes is answered `lost`",
        "the stop, until all that it held has ended elsewhere",
        lambda calm: _worker(calm, signal.SIGSTOP),
    ),
    Crash(
        "PostgreSQL loses its power, and comes back",
        "calls wait or are sent again; leases may be undone, nothing acknowledged is",
        "its return, until the first task is done",
        _restart,
    ),
    Crash(
        "a backend is killed (`kill -9`), so that PostgreSQL recovers",
        "the same",
        "the kill, until the first task is done",
        _backend,
    ),
    Crash(
        "all connections are terminated",
        "new ones are made; what was on its way is sent again",
        "the termination, until the first task is done",
        _terminate,
    ),
    Crash(
        "all connections are taken by others",
        "workers and Apps wait for one",
        "their return, until the first task is done",
        _exhaust,
    ),
    Crash(
        "the table `live` is locked",
        "everything waits; a statement that waits too long is sent again",
        "the end of the lock, until the first task is done",
        _lock,
    ),
    Crash(
        "replies are lost for 3 s, then connections are cut",
        "what is repeatable is sent again and happens once",
        "the cut, until the first task is done",
        _lose_replies,
    ),
    Crash(
        "every connection is half open for good, to a peer that still acknowledges",
        "a worker gives each up when its answer is late, and makes a new one",
        "the loss, until the first task is done",
        _half_open,
    ),
    Crash(
        "the same, as an App sees it in the middle of a call",
        "the call raises `Unavailable` when its answer is later than any statement may take",
        "the loss, until the next call is answered",
        _half_open_to_an_app,
    ),
)
FULL_DISK = Crash(
    "the disk is full, until space is made",
    "statements fail, or PostgreSQL ends and has to be started; nothing is half stored",
    "the space (or the start), until the first task is done",
    _fill_disk,
)


def measure(times: int, *, only: str | None = None) -> tuple[str, bool]:
    """Return the page of the matrix, and whether no promise was broken.

    *only*: measure no crash but those whose name holds this; what comes of it is no whole page.
    """
    rows = []
    before = _load()
    with ExitStack() as stack:
        calm = Calm(stack)
        crashes = (*CRASHES, FULL_DISK) if calm.has_own_disk else CRASHES
        if not calm.has_own_disk:
            print("the full disk is left out: only root can mount a small one", flush=True)
        for crash in (crash for crash in crashes if only is None or only in crash.name):
            seconds = []
            for _ in range(times):
                # One that was started while nothing answered has ended.
                calm.cast.revive("drainer", "pourer")
                calm.wait_for_tasks(200)
                seconds.append(crash.happen(calm))
            rows.append(_row(crash.name, crash.seen, crash.counted, seconds))
            print(rows[-1], flush=True)
            print(f"  {', '.join(f'{each:.1f}' for each in sorted(seconds))}", flush=True)
        broken = calm.settle()
    if only is not None:
        return "", _are_kept(broken)
    found = fail_over(times, seed=1)
    rows.append(
        _row(
            "the primary is lost, and its synchronous standby promoted",
            "whoever names both hosts finds the new primary; nothing acknowledged is lost",
            "the loss, until the first task is done",
            found.seconds,
        )
    )
    print(rows[-1], flush=True)
    clean = _are_kept(broken | found.broken)
    head = _HEAD.format(times=times, cores=os.cpu_count(), before=before, after=_load())
    return head + "\n".join(rows) + "\n", clean


def _are_kept(broken: dict[str, list[str]]) -> bool:
    for promise, complaints in broken.items():
        print(f"BROKEN {promise} ({len(complaints)} times): {complaints[:3]}")
    return not broken


def _row(name: str, seen: str, counted: str, seconds: list[float]) -> str:
    middle, most = statistics.median(seconds), max(seconds)
    return f"| {name} | {seen} | {counted} | {middle:.1f} s | {most:.1f} s |"


def _load() -> str:
    return f"{os.getloadavg()[0]:.0f}"


_HEAD = """\
# The crash matrix: each fault, what is seen of it, and how long it takes

Written by `./run torture --matrix` from one run, which made each fault {times} times on a
PostgreSQL of its own, with two workers and a program that enqueued without a pause. Then it
compared every task that was acknowledged with what is stored, and every step of each with the table
of states: the page is written only if nothing was lost, moved as it must not, or completed twice.
So few times show what is usual and not what is longest. The machine has {cores} cores; its load
average was {before} when the run began and {after} when it ended.

| fault | what is seen | counted from | median | worst |
|---|---|---|---|---|
"""
