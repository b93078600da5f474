"""Latency at a steady 50 tasks a second: from before the enqueue to the handler's start.

One process enqueues and works, so both ends read the same clock. The enqueue's own commit is part
of it.
"""

from __future__ import annotations

import asyncio
import statistics
from time import monotonic, time

from bench import handlers


async def main(rate: float, seconds: float) -> None:
    """Enqueue at a steady rate beside an idle worker, and print the percentiles."""
    with handlers.app as app:
        app.migrate()
        worker = asyncio.create_task(app.awork())
        await asyncio.sleep(2.0)
        handlers.began.clear()
        sent: dict[int, float] = {}
        commits: list[float] = []
        start = monotonic()
        for n in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start + n / rate - monotonic()))
            before = time()
            answer = await handlers.nothing.aenqueue(sent_at=before)
            commits.append(time() - before)
            sent[answer.id] = before
        while len(handlers.began) < len(sent):
            handlers.changed.clear()
            await asyncio.wait_for(handlers.changed.wait(), 10.0)
        worker.cancel()
        await asyncio.wait([worker])
        await app.aclose_loop()
    waits = sorted((at - sent[id_]) * 1000 for id_, at in handlers.began)
    print(
        f"{len(waits)} tasks at {rate:g}/s, every one handled once: {len(set(sent)) == len(waits)}"
    )
    print(f"enqueue alone (commit included): p50 {statistics.median(commits) * 1000:.2f} ms")
    for percent in (50, 95, 99):
        print(f"enqueue to start p{percent}: {waits[int(len(waits) * percent / 100)]:.2f} ms")


def run(rate: float = 50.0, seconds: float = 20.0) -> None:
    """Run it."""
    asyncio.run(main(rate, seconds))
