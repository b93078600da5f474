"""One run: set the stage, let the plan go wrong, let everything come to an end, and judge.

The same seed gives the same plan and the same wishes. It cannot give the same timing, so a run that
failed is repeated with its seed a few times.
"""

from __future__ import annotations

import math
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.nemesis import audit, checker, coverage, tasks
from tests.nemesis.cast import MODULES, Cast, roles
from tests.nemesis.evidence import Evidence, gather
from tests.nemesis.faults import Nemesis, plan
from tests.nemesis.history import History
from tests.nemesis.server import OBSERVER, Server
from tests.nemesis.wire import Wire
from wherry.migrations import migrate

WORKERS = 3
PRODUCERS = 2
TICK_SECONDS = 0.05
# A task that takes its worker along needs three leases and reaps, one after the other.
DRAIN_SECONDS = 60.0
LEAVE_SECONDS = 20.0
# A fault waits for somebody to hit: on a busy machine the last one may come late.
LATE_SECONDS = 20.0
_WHAT_IS_LEFT = """
    select 'connection ' || application_name || ', ' || state || ': ' || query from pg_stat_activity
     where backend_type = 'client backend' and application_name <> %(observer)s
     union all
    select 'lock ' || locktype || ' ' || mode from pg_locks
     where pid <> pg_backend_pid() and locktype not in ('virtualxid')
       and pid in (select pid from pg_stat_activity where backend_type = 'client backend')
     union all
    select 'key ' || key || ' names no task' from wherry.key
     where not exists (select from wherry.tasks where tasks.id = key.task_id)
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a run: `broken` promises, `missed` events, and how often each event was seen."""

    seed: int
    seconds: float
    mutant: str | None
    broken: dict[str, list[str]]
    missed: list[str]
    seen: Counter[str]
    tasks: int

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept, and every targeted event happened."""
        return not self.broken and not self.missed

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.seconds:.0f} s of faults, {self.tasks} tasks"]
        lines += [f"  {times:>6} {event}" for event, times in sorted(self.seen.items())]
        lines += [f"NEVER HAPPENED: {event}" for event in self.missed]
        for promise, complaints in sorted(self.broken.items()):
            lines.append(f"BROKEN {promise} ({len(complaints)} times)")
            lines += [f"    {complaint}" for complaint in complaints[:5]]
        return "\n".join(lines)


class Stage:
    """A server with the tables of a run, its processes, and the folder of their histories."""

    def __init__(self, *, seed: int, mutant: str | None) -> None:
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="nemesis-history-"))
        self.server = Server()
        try:
            migrate(self.server.dsn)
            with self.server.connect() as connection:
                audit.install(connection)
                connection.execute(tasks.SCHEMA)
            actors = list(roles(workers=WORKERS, producers=PRODUCERS))
            self.wire = Wire(self.server.dsn, self.server.front)
            self.cast = Cast(self.folder, self.server.dsn, self.wire.dsn, seed, mutant, actors)
        except BaseException:
            self.server.close()
            raise

    def suffer(self, *, seconds: float) -> Counter[str]:
        """Let everybody act while the plan is carried out; returns what took effect."""
        faults = plan(random.Random(f"{self.seed}/plan"), seconds=seconds)
        nemesis = Nemesis(
            faults,
            self.cast,
            self.server,
            self.wire,
            random.Random(f"{self.seed}/victims"),
            History(self.folder, "nemesis"),
        )
        self.cast.start(self.cast.actors)
        self._wait_for_first_words()
        began_at = time.monotonic()
        while (now := time.monotonic() - began_at) < seconds + LATE_SECONDS:
            self.cast.revive(*MODULES)
            nemesis.act(now=now)
            if now >= seconds and not nemesis.due:
                break
            time.sleep(TICK_SECONDS)
        nemesis.unlock(now=math.inf)
        return nemesis.done

    def _wait_for_first_words(self) -> None:
        """Wait until all have begun to act: interpreters start slowly on a busy machine."""
        ends_at = time.monotonic() + LATE_SECONDS
        while len(list(self.folder.glob("*.jsonl"))) <= len(self.cast.actors):
            if time.monotonic() > ends_at:
                raise RuntimeError(f"not all processes have begun; see {self.folder}")
            time.sleep(TICK_SECONDS)

    def settle(self) -> list[str]:
        """Let everything come to an end in good order; returns what does not."""
        self.cast.tell_of_end()
        late = self.cast.wait("producer", "hasty", seconds=LEAVE_SECONDS)
        ends_at = time.monotonic() + DRAIN_SECONDS
        with self.server.connect() as connection:
            while (live := _unsettled(connection)) and time.monotonic() < ends_at:
                self.cast.revive("worker", "hand")
                time.sleep(TICK_SECONDS)
            left = [f"O2: after {DRAIN_SECONDS:g} s still {task}" for task in live]
            for actor in self.cast.of("worker", "hand"):
                self.cast.dismiss(actor)
            late += self.cast.wait("worker", "hand", seconds=LEAVE_SECONDS)
            left += [f"{name} does not end" for name in late]
            left += [f"O4: {what}" for what in _left_over(connection)]
        return left

    def judge(self, left_over: list[str], faults: Counter[str]) -> Evidence:
        """Gather what all witnesses say."""
        with self.server.connect() as connection:
            return gather(
                self.folder,
                connection,
                ended=self.cast.ended,
                faults=faults,
                left_over=left_over,
                server_log=self.server.log,
            )

    def __enter__(self) -> Self:
        self.wire.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cast.close()
        self.wire.__exit__(kind, error, trace)
        self.server.close()


def torture(*, seconds: float, seed: int, mutant: str | None = None) -> Verdict:
    """Run once; the histories are kept only if the verdict is not clean."""
    with Stage(seed=seed, mutant=mutant) as stage:
        faults = stage.suffer(seconds=seconds)
        evidence = stage.judge(stage.settle(), faults)
    broken = checker.check(evidence)
    seen = coverage.count(evidence)
    missed = [] if mutant else coverage.missed(seen, seconds=seconds)
    verdict = Verdict(seed, seconds, mutant, broken, missed, seen, len(evidence.lives))
    (stage.folder / "server.log").write_text(evidence.server_log)
    if mutant or verdict.is_clean:
        shutil.rmtree(stage.folder)
    else:
        verdict.broken.setdefault("(histories)", []).append(str(stage.folder))
    return verdict


def _unsettled(connection: psycopg.Connection[Any]) -> list[str]:
    """Return tasks that have not ended, and leases that nobody has cleared away."""
    rows = connection.execute(
        "(select concat_ws(' ', 'task', id, state, type, attempts, run_after) from wherry.live"
        "  order by id limit 20)"
        " union all"
        " (select concat_ws(' ', 'lease', lease_id, expires_at, task_ids)"
        "    from wherry.lease limit 20)"
    )
    return [str(text) for (text,) in rows]


def _left_over(connection: psycopg.Connection[Any]) -> list[str]:
    """Return what should not be there any more; the server takes a moment to see who is gone."""
    ends_at = time.monotonic() + 5.0
    while True:
        rows = connection.execute(_WHAT_IS_LEFT, {"observer": OBSERVER}).fetchall()
        if not rows or time.monotonic() > ends_at:
            return [str(text) for (text,) in rows]
        time.sleep(0.1)
