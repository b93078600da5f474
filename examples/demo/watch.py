"""Conducts the demo: starts the workers, kills one in the middle, and waits for the end.

It decides by what the database says and nothing else; it asks ten times a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import psycopg

from examples.demo import facts
from examples.demo.show import Show
from examples.demo.workers import Workers

ASK_EVERY_SECONDS = 0.1
LONGEST_SECONDS = 180


def watch(
    conn: psycopg.Connection[Any],
    *,
    loading: Sequence[Future[None]],
    files: int,
    workers: Workers,
    show: Show,
) -> None:
    """Return when every task has ended, or it takes too long: the report will say which.

    Raises WorkerEnded, or what loading raised.
    """
    deadline = time.monotonic() + LONGEST_SECONDS
    started = killed = False
    while True:
        # Asked first: what is loaded after the count is counted in the next round.
        loaded = all(part.done() for part in loading)
        counts = facts.count(conn)
        show.update(counts)
        workers.check()
        for part in loading:
            if part.done():
                part.result()  # raises what it raised
        if loaded and counts.finished == counts.tasks:
            return
        # Not before there is a pile of work, so that the one that is killed has its hands full.
        if not started and counts.loaded >= files // 2:
            started = True
            start(workers, show)
            start(workers, show)
        if not killed and counts.finished >= files // 3:
            killed = kill_one(conn, workers, show)
        if time.monotonic() > deadline:
            show.say(f"given up: not done after {LONGEST_SECONDS} s")
            return
        time.sleep(ASK_EVERY_SECONDS)


def start(workers: Workers, show: Show) -> None:
    """Start another worker."""
    name, pid = workers.start()
    show.say(f"{name} started, process {pid}")


def kill_one(conn: psycopg.Connection[Any], workers: Workers, show: Show) -> bool:
    """Kill a worker that is in the middle of a task, and start another; False if there is none."""
    victim = facts.busy_worker(conn)
    if victim is None:
        return False
    workers.kill(victim)
    conn.execute("insert into killed (worker) values (%s)", [victim])
    held = facts.leases_of(conn, victim)
    show.say(f"{victim} killed with SIGKILL while it held {held} tasks")
    start(workers, show)
    return True
