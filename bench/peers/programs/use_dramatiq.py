"""dramatiq on Redis, without results.

Tuned: one process of 8 threads, a prefetch of 200. Defaults: one process, its 8 threads. There is
no bulk call.
"""
# pyright: reportMissingImports=false, reportFunctionMemberAccess=false

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.programs import runtime

dramatiq.set_broker(RedisBroker(url=runtime.REDIS))


@dramatiq.actor(queue_name="peers")
def handle(n: int) -> None:
    """Leave a mark, and take a while if asked to."""
    runtime.hit(n)
    if runtime.SLEEPS:
        time.sleep(runtime.seconds_of(n))


class DramatiqProgram(runtime.Program):
    """dramatiq."""

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        handle.send(task)

    def work(self) -> None:
        """Become its worker."""
        command = ["dramatiq", "bench.peers.programs.use_dramatiq", "-p", "1"]
        if runtime.SLOTS or runtime.TUNED:
            command += ["-t", str(runtime.SLOTS or 8)]
        if runtime.TUNED and not runtime.SLOTS:
            os.environ |= {"dramatiq_queue_prefetch": "200"}
        os.execv(str(Path(sys.executable).with_name("dramatiq")), command)


if __name__ == "__main__":
    runtime.main(DramatiqProgram())
