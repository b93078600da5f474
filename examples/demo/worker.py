"""One worker process of the demo: `python -m examples.demo.worker NAME`.

A program of yours needs no such file: `wherry worker shop.tasks:app` starts a worker. This one does
one thing more: it ends when its standard input does, a pipe that the demo holds. So it never
outlives the demo, not even one that was killed with SIGKILL and could tell nobody.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from examples.demo.tasks import app, pool


async def main(name: str) -> int:
    """Work until told to stop; return the exit code."""
    loop = asyncio.get_running_loop()

    def demo_is_gone() -> None:
        loop.remove_reader(sys.stdin)
        # As if somebody had stopped this worker: what is running is finished first.
        signal.raise_signal(signal.SIGTERM)

    loop.add_reader(sys.stdin, demo_is_gone)
    async with pool():
        # A short lease, so that what a killed worker held is soon with another one.
        done = await app.awork(name=name, concurrency=20, lease_for=5, shutdown_timeout=5)
    return done.exit_code


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    sys.exit(asyncio.run(main(sys.argv[1])))
