"""Celery on Redis, without results.

Tuned: one child, a prefetch of 128, no gossip, mingle or heartbeat. Defaults: a child a core. With
slots: threads. There is no bulk call.
"""
# pyright: reportMissingImports=false, reportFunctionMemberAccess=false

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from celery import Celery

from bench.peers.programs import runtime

app: Any = Celery("peers", broker=runtime.REDIS)
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
if runtime.SLOTS:
    app.conf.worker_prefetch_multiplier = 1
elif runtime.TUNED:
    app.conf.worker_prefetch_multiplier = 128


@app.task(name="handle")
def handle(n: int) -> None:
    """Leave a mark, and take a while if asked to."""
    runtime.hit(n)
    if runtime.SLEEPS:
        time.sleep(runtime.seconds_of(n))


class CeleryProgram(runtime.Program):
    """Celery."""

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        handle.delay(task)

    def work(self) -> None:
        """Become its worker."""
        name = f"peers-{os.getpid()}@%h"
        command = ["celery", "-A", "bench.peers.programs.use_celery", "worker", "-l", "WARNING"]
        command += ["-n", name]
        if runtime.SLOTS:
            command += ["-P", "threads", "-c", str(runtime.SLOTS)]
        elif runtime.TUNED:
            command += ["-c", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        os.execv(str(Path(sys.executable).with_name("celery")), command)


if __name__ == "__main__":
    runtime.main(CeleryProgram())
