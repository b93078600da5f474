"""`./run torture --failover`: a primary is lost under load and its standby takes over, repeatedly.

With synchronous replication nothing that was acknowledged may be lost; and a worker, whose DSN
names both hosts, has to find the new primary by itself within seconds. Leases are committed without
waiting for anybody, so a failover may undo some: their tasks are run once more.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.nemesis import audit, bulk_audit
from tests.nemesis.cast import Actor, Cast
from tests.nemesis.node import Pair
from wherry.migrations import migrate

# So many tasks have to end between two failovers.
TASKS_BETWEEN = 2000
LEAVE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Failovers:
    """What came of it: seconds from the loss of a primary until the first task was done again."""

    broken: dict[str, list[str]]
    counted: dict[str, int]
    seconds: list[float]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    def __str__(self) -> str:
        again = self.counted["bulk: executions of a task that had begun before"]
        lost = len(self.broken.get(bulk_audit.LOST, ()))
        said = (
            f"{len(self.seconds)} failovers, {self.counted['bulk: tasks']:,} tasks;"
            f" first task done after {statistics.median(self.seconds):.1f} s (median),"
            f" {max(self.seconds):.1f} s at most; {lost} lost, {again} run once more"
        )
        lines = [said]
        for promise, complaints in sorted(self.broken.items()):
            lines.append(f"BROKEN {promise} ({len(complaints)} times)")
            lines += [f"    {complaint}" for complaint in complaints[:5]]
        return "\n".join(lines)


def fail_over(times: int, *, seed: int) -> Failovers:
    """Fail over so often while tasks are poured and drained, and judge."""
    folder = Path(tempfile.mkdtemp(prefix="nemesis-history-"))
    seconds = []
    with Pair() as pair:
        migrate(pair.dsn)
        with pair.primary.connect() as connection:
            audit.install(connection)
            bulk_audit.install(connection)
        actors = [Actor("drainer-1"), Actor("drainer-2"), Actor("pourer-1")]
        cast = Cast(folder, pair.dsn, pair.dsn, 0, "", seed, None, actors)
        try:
            cast.start(actors)
            _wait_for_tasks(pair, TASKS_BETWEEN)
            for _ in range(times):
                lost_at = time.monotonic()
                pair.fail_over()
                _wait_for_tasks(pair, 1)
                seconds.append(time.monotonic() - lost_at)
                pair.follow()
                _wait_for_tasks(pair, TASKS_BETWEEN)
            left = _settle(pair, cast)
        except (KeyboardInterrupt, SystemExit):
            # Who stops a run asks for no evidence.
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            cast.close()
        with pair.primary.connect() as connection:
            broken, counted = bulk_audit.judge(connection, folder)
    if left:
        broken["O2 all ends"] = left
    shutil.rmtree(folder)
    return Failovers(broken, counted, seconds)


def _wait_for_tasks(pair: Pair, more: int) -> None:
    """Wait until so many tasks more have ended."""
    ended = "select count(*) from wherry.finished"
    before = pair.primary.value(ended)
    pair.primary.wait_for(lambda: pair.primary.value(ended) >= before + more)


def _settle(pair: Pair, cast: Cast) -> list[str]:
    """Let everything come to an end; returns what does not."""
    cast.tell_of_end()
    left = cast.wait("pourer", seconds=LEAVE_SECONDS)
    pair.primary.wait_for(lambda: pair.primary.value("select count(*) from wherry.live") == 0)
    for actor in cast.of("drainer"):
        cast.dismiss(actor)
    left += cast.wait("drainer", seconds=LEAVE_SECONDS)
    return [f"{name} does not end" for name in left]
