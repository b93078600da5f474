"""The seed benchmark: 20 slots, handlers of 50 to 200 ms; what can be had, and what was had.

A slot is busy for 125 ms on average, so 20 slots can finish 160 tasks a second and no more. The
measured rate is the number of rows that the database says succeeded, over the time from the first
start to the last end.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from dataclasses import dataclass

import psycopg

import wherry
from bench import handlers

SLOTS = 20
SHORTEST, LONGEST = 0.050, 0.200


@dataclass(frozen=True)
class Run:
    """One run's truth, from the database and from the handlers."""

    predicted: float
    measured: float
    succeeded: int
    handled: int

    @property
    def ratio(self) -> float:
        """How much of what was possible was had."""
        return self.measured / self.predicted


async def one_run(app: wherry.App, n: int, seed: int) -> Run:
    """Enqueue *n* tasks, drain them, and ask the database what happened."""
    chance = random.Random(seed)
    times = [chance.uniform(SHORTEST, LONGEST) for _ in range(n)]
    answers = await handlers.sleep.aenqueue_many({"seconds": seconds} for seconds in times)
    ids = [answer.id for answer in answers]
    handlers.began.clear()
    await app.awork(concurrency=SLOTS, until_empty=True)
    async with await psycopg.AsyncConnection.connect(app.dsn) as connection:
        row = await (
            await connection.execute(
                "select count(*), extract(epoch from max(finished_at) - min(started_at))"
                " from wherry_bench.tasks where id = any(%s) and state = 'succeeded'",
                (ids,),
            )
        ).fetchone()
    assert row is not None
    succeeded, seconds = int(row[0]), float(row[1])
    handled = {id_ for id_, _ in handlers.began}
    if succeeded != n or len(handlers.began) != n or handled != set(ids):
        raise SystemExit(
            f"lost or doubled: {n} asked, {succeeded} stored, {len(handlers.began)} run"
        )
    return Run(SLOTS / statistics.mean(times), n / seconds, succeeded, len(handlers.began))


async def main(n: int, runs: int) -> None:
    """Print the prediction, each run, and the median."""
    print(f"prediction: {SLOTS} slots / {(SHORTEST + LONGEST) / 2:.3f} s = 160 tasks/s")
    with handlers.app as app:
        app.migrate()
        ratios = []
        for seed in range(runs):
            run = await one_run(app, n, seed)
            ratios.append(run.ratio)
            print(
                f"run {seed}: predicted {run.predicted:6.1f}/s of these very tasks,"
                f" measured {run.measured:6.1f}/s = {run.ratio:.3f};"
                f" {run.succeeded} succeeded, {run.handled} handler runs"
            )
        print(f"median: {statistics.median(ratios):.3f} of the prediction")


def run(n: int = 1600, runs: int = 3) -> None:
    """Run it, with n tasks a run."""
    asyncio.run(main(n, runs))
