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
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import wherry
from tests.nemesis import audit, bulk, bulk_audit, checker, coverage, insisting, tasks
from tests.nemesis.cast import MODULES, Cast, roles
from tests.nemesis.doors import FAR_WORKER
from tests.nemesis.evidence import Evidence, gather
from tests.nemesis.faults import Fault, Nemesis, plan
from tests.nemesis.history import History
from tests.nemesis.server import OBSERVER, Server, free_port
from tests.nemesis.wire import Wire
from wherry.migrations import migrate

# Of which the last one has only a server of ours.
WORKERS = 4
PRODUCERS = 2
DRAINERS = 2
TICK_SECONDS = 0.05
# A task that takes its worker along needs three leases and reaps, one after the other.
DRAIN_SECONDS = 120.0
# With a known bug in it, it may never come to its end.
MUTANT_DRAIN_SECONDS = 60.0
LEAVE_SECONDS = 40.0
# A fault waits for somebody to hit: on a busy machine the last one may come late.
LATE_SECONDS = 30.0
# Interpreters start slowly then, too.
START_SECONDS = 120.0
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

# Tells what is still to happen, where this has been seen in a run.
Owing = Callable[[Counter[str]], list[str]]

# The promises whose breach means that a task was lost, moved as it must not, or completed twice.
LOST = ("W1 acknowledged is there", "W1 the tables agree with the audit", bulk_audit.LOST)
ILLEGAL = ("C2 only known transitions", bulk_audit.ILLEGAL)
DOUBLE = ("C1 settled once", bulk_audit.DOUBLE)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is told of a run, or of many: `in_vain` of all executions were of a lease then lost."""

    runs: int = 0
    tasks: int = 0
    faults: int = 0
    lost: int = 0
    illegal: int = 0
    double: int = 0
    executions: int = 0
    in_vain: int = 0

    def __add__(self, other: Figures) -> Figures:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Figures(*(one + another for one, another in pairs))

    def __str__(self) -> str:
        rate = self.in_vain / self.executions if self.executions else 0.0
        return (
            f"{self.runs} runs: {self.tasks:,} tasks, {self.faults:,} faults; {self.lost} lost,"
            f" {self.illegal} illegal transitions, {self.double} double completions;"
            f" {self.executions:,} executions, of which {self.in_vain:,} ({rate:.1%}) had to be"
            " done once more, since their lease was lost"
        )


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
    def figures(self) -> Figures:
        """What is told of any run, to be added up."""
        return Figures(
            runs=1,
            tasks=self.tasks,
            faults=sum(times for of, times in self.seen.items() if of.startswith("fault: ")),
            lost=self._complaints(LOST),
            illegal=self._complaints(ILLEGAL),
            double=self._complaints(DOUBLE),
            executions=self.seen["handler: began"] + self.seen["bulk: executions"],
            in_vain=self.seen["handler: ran in vain"]
            + self.seen["bulk: executions of a task that had begun before"],
        )

    def _complaints(self, promises: tuple[str, ...]) -> int:
        return sum(len(self.broken.get(promise, ())) for promise in promises)

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
        lines.append(str(self.figures))
        return "\n".join(lines)


class Stage:
    """A server with the tables of a run, its processes, and the folder of their histories."""

    def __init__(self, *, seed: int, mutant: str | None, with_bulk: bool) -> None:
        self.seed, self.with_bulk = seed, with_bulk
        self._drain_seconds = DRAIN_SECONDS if mutant is None else MUTANT_DRAIN_SECONDS
        self.folder = Path(tempfile.mkdtemp(prefix="nemesis-history-"))
        self.server = Server()
        try:
            migrate(self.server.dsn)
            with wherry.App(self.server.dsn) as app:
                app.set_queue_limits(tasks.LIMITED, max_running=tasks.MOST_RUNNING)
            with self.server.connect() as connection:
                audit.install(connection)
                if with_bulk:
                    bulk_audit.install(connection)
                connection.execute(tasks.SCHEMA)
            actors = list(
                roles(
                    workers=WORKERS,
                    producers=PRODUCERS,
                    drainers=DRAINERS if with_bulk else 0,
                )
            )
            self.wire = Wire(self.server.front, self.server.socket)
            port, front = free_port(), free_port()
            self.door_wire = Wire(front, port)
            self.cast = Cast(
                self.folder,
                self.server.dsn,
                self.server.front_dsn,
                port,
                f"grpc://127.0.0.1:{front}",
                seed,
                mutant,
                actors,
            )
        except BaseException:
            self.server.close()
            shutil.rmtree(self.folder)
            raise

    def suffer(self, *, seconds: float, owing: Owing | None = None) -> Counter[str]:
        """Let everybody act while the plan is carried out; returns what took effect.

        *owing* tells what should happen as well before it is over, if it can.
        """
        faults = plan(random.Random(f"{self.seed}/plan"), seconds=seconds, bulk=self.with_bulk)
        nemesis = Nemesis(
            faults,
            self.cast,
            self.server,
            self.wire,
            self.door_wire,
            random.Random(f"{self.seed}/victims"),
            History(self.folder, "nemesis"),
        )
        self.cast.start(self.cast.actors)
        self._wait_for_first_words()
        began_at = time.monotonic()
        while (now := time.monotonic() - began_at) < seconds + LATE_SECONDS:
            self.cast.revive(*MODULES)
            nemesis.act(now=now)
            if now >= seconds and not nemesis.due and self._far_worker_was_heard():
                break
            time.sleep(TICK_SECONDS)
        if owing is not None:
            self._insist(nemesis, owing)
        nemesis.unlock(now=math.inf)
        return nemesis.done

    def _insist(self, nemesis: Nemesis, owing: Owing) -> None:
        """Go on until nothing is owing, or it is no use."""
        ends_at = time.monotonic() + insisting.INSIST_SECONDS
        while missing := self._missing(nemesis, owing):
            now = time.monotonic()
            if now > ends_at:
                return
            print(f"still to happen: {', '.join(missing)}", flush=True)
            nemesis.due += [Fault(0.0, kind) for kind in insisting.faults_for(missing)]
            while time.monotonic() < now + insisting.LOOK_SECONDS:
                self.cast.revive(*MODULES)
                nemesis.act(now=time.monotonic())
                time.sleep(TICK_SECONDS)

    def _missing(self, nemesis: Nemesis, owing: Owing) -> list[str]:
        """Return what is owing by the evidence so far."""
        nemesis.unlock(now=math.inf)
        for actor in self.cast.of(*MODULES):
            # The look takes longer than any pause should.
            self.cast.resume(actor)
        while True:
            try:
                return owing(coverage.count(self.judge([], nemesis.done)))
            except psycopg.OperationalError:
                # The last fault was a restart.
                time.sleep(TICK_SECONDS)

    def _far_worker_was_heard(self) -> bool:
        """Whether the worker without a database has reported anything: it starts most slowly."""
        histories = self.folder.glob(f"{FAR_WORKER}.*.jsonl")
        return any('"reported"' in path.read_text() for path in histories)

    def _wait_for_first_words(self) -> None:
        """Wait until all have begun to act."""
        ends_at = time.monotonic() + START_SECONDS
        while len(list(self.folder.glob("*.jsonl"))) <= len(self.cast.actors):
            if time.monotonic() > ends_at:
                raise RuntimeError(f"not all processes have begun; see {self.folder}")
            time.sleep(TICK_SECONDS)

    def settle(self) -> list[str]:
        """Let everything come to an end in good order; returns what does not."""
        self.cast.tell_of_end()
        late = self.cast.wait("producer", "hasty", "pourer", seconds=LEAVE_SECONDS)
        history = History(self.folder, "end")
        with wherry.App(self.server.dsn) as app:
            for queue in (*tasks.QUEUES, bulk.QUEUE):
                # Whoever paused it may have been killed.
                with history.asking("resume", queue=queue) as asking:
                    asking.told(changed=app.resume_queue(queue).changed)
            for schedule in app.list_schedules():
                # Or there would always be one more task.
                with history.asking("pause a schedule", name=schedule.name) as asking:
                    asking.told(changed=app.pause_schedule(schedule.name))
        ends_at = time.monotonic() + self._drain_seconds
        with self.server.connect() as connection:
            while (live := _unsettled(connection)) and time.monotonic() < ends_at:
                self.cast.revive("door", "worker", "drainer", "hand")
                time.sleep(TICK_SECONDS)
            left = [f"O2: after {self._drain_seconds:g} s still {task}" for task in live]
            for actor in self.cast.of("worker", "drainer", "hand"):
                self.cast.dismiss(actor)
            late += self.cast.wait("worker", "drainer", "hand", seconds=LEAVE_SECONDS)
            for actor in self.cast.of("door"):
                self.cast.dismiss(actor)
            late += self.cast.wait("door", seconds=LEAVE_SECONDS)
            left += [f"{name} does not end" for name in late]
            left += [f"O4: {what}" for what in _left_over(connection)]
        return left

    def judge_bulk(self) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Return what was broken in the bulk, and what was counted there."""
        if not self.with_bulk:
            return {}, {}
        with self.server.connect() as connection:
            return bulk_audit.judge(connection, self.folder)

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
        self.door_wire.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cast.close()
        self.door_wire.__exit__(kind, error, trace)
        self.wire.__exit__(kind, error, trace)
        self.server.close()
        if kind in (KeyboardInterrupt, SystemExit):
            # Who stops a run asks for no evidence.
            shutil.rmtree(self.folder)


def torture(
    *,
    seconds: float,
    seed: int,
    mutant: str | None = None,
    with_bulk: bool = False,
    owing: Owing | None = None,
) -> Verdict:
    """Run once; the histories are kept only if the verdict is not clean."""
    with Stage(seed=seed, mutant=mutant, with_bulk=with_bulk) as stage:
        faults = stage.suffer(seconds=seconds, owing=owing)
        evidence = stage.judge(stage.settle(), faults)
        broken, counted = stage.judge_bulk()
    broken |= checker.check(evidence)
    seen = coverage.count(evidence) + Counter(counted)
    missed = [] if mutant else coverage.missed(seen, seconds=seconds, bulk=with_bulk)
    stored = len(evidence.lives) + seen["bulk: tasks"]
    verdict = Verdict(seed, seconds, mutant, broken, missed, seen, stored)
    (stage.folder / "server.log").write_text(evidence.server_log)
    if mutant or not broken:
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
