"""Memory: how large a worker is after its first hundred thousand tasks, and after all of them.

Another process keeps some thousands of tasks waiting, so that neither the database nor the worker
ever holds more. Counted is what is resident, less the memory in which handlers leave their marks,
which all processes of the run share and which grows with the tasks that were begun.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

from wherry.bench import worker
from wherry.bench.chart import Lines
from wherry.bench.children import Children
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.horizon import BATCH
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet
from wherry.errors import ConfigError

SAMPLES = 100
STALLED_SECONDS = 60.0
# The feeder ends by the number of its tasks.
_FOR_EVER = 1e9
PREDICTION = (
    "after a million tasks, or five, a worker is at most 1.05 times as large as after 100,000"
)
CHART = Lines((("resident", "tasks that have run", "resident, MB"),))
OPTIONS = (
    option("--tasks", 1_000_000, "Tasks in all"),
    option("--after", 100_000, "Compared is the worker after so many"),
    option("--ahead", 5000, "How many tasks wait at a time"),
)


def resident_mb(pid: int) -> float:
    """What a process has in memory but for what it shares with others on purpose."""
    kept = ("RssAnon:", "RssFile:")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(kept)) / 1024


def one_run(place: Place, sheet: Sheet, *, tasks: int, after: int, ahead: int) -> None:
    """Run all tasks, and compare the worker early with the worker at the end."""
    place.renew()
    tasks = max(BATCH, tasks - tasks % BATCH)
    points: list[tuple[float, float]] = []
    with Marks.made(tasks) as marks:
        with Children() as children:
            worker.start(children, place, marks, process=0)
            [working] = children.all
            feeder = children.start(
                "wherry.bench.horizon:feed",
                dsn=place.dsn, marks=str(marks.path), tasks=tasks, ahead=ahead, seconds=_FOR_EVER,
            )  # fmt: skip
            before = place.read()
            children.begin()
            began = monotonic()
            early = 0.0
            for wanted in sorted({min(after, tasks), *_steps(tasks)}):
                _wait_for(marks, wanted)
                points.append((wanted, resident_mb(working.pid)))
                if wanted == min(after, tasks):
                    early = points[-1][1]
            seconds = monotonic() - began
            feeder.result()
            place.wait_until_drained()
            late = resident_mb(working.pid)
            working.stop()
            working.result()
            spent = place.spent(before)
        marks.must_be_once(tasks)
        place.must_have_succeeded(tasks)
    sheet.add(
        "worker",
        **{
            "tasks": tasks,
            "early MB": early,
            "late MB": late,
            "most MB": max(mb for _, mb in points),
            "late/early": late / early,
            "tasks/s": tasks / seconds,
        },
        **spent.each(tasks),
    )
    sheet.trace("worker", "resident", points)


def _steps(tasks: int) -> list[int]:
    return [tasks * n // SAMPLES for n in range(1, SAMPLES + 1)]


def _wait_for(marks: Marks, wanted: int) -> None:
    """Return when so many were entered. Raises BenchmarkFailed if no more are for a minute."""
    seen, since = 0, monotonic()
    while (now := marks.entered()) < wanted:
        if now != seen:
            seen, since = now, monotonic()
        elif monotonic() - since > STALLED_SECONDS:
            raise BenchmarkFailed(f"the worker stands still after {now} tasks")
        sleep(0.01)


def measure(place: Place, given: Given) -> Sheet:
    """Measure one worker a run. Raises ConfigError where no /proc tells a process's memory."""
    if not Path("/proc/self/status").exists():
        raise ConfigError(
            "what a worker has in memory is read from Linux's /proc, which is not here"
        )
    sheet = Sheet(
        "memory",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={
            **dict.fromkeys(("early MB", "late MB", "most MB", "server us", "commits/1000"), 1),
            "late/early": 3,
        },
    )
    for _ in range(given.runs):
        one_run(place, sheet, tasks=given.tasks, after=given.after, ahead=given.ahead)
    grown = sheet.median("worker", "late/early")
    sheet.ratios["late / early"] = grown
    sheet.say(
        f"after all {given.tasks:,} tasks the worker is {grown:.3f} times as large as after"
        f" {min(given.after, given.tasks):,}"
    )
    return sheet
