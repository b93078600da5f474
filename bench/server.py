"""Through the server: what its doors cost, beside the same calls to the database itself.

Every run has a schema and a server process of its own. What counts is the ratio to the direct
transport, which is measured right beside it.
"""

from __future__ import annotations

from os import getloadavg

from bench import server_idle, server_latency, server_rates
from wherry.bench.chart import Bars
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.server_process import WAYS, Served
from wherry.bench.sheet import Sheet

PREDICTION = (
    "batch enqueue 0.4 of direct over gRPC and 0.3 over HTTP, lease 100 + complete 100 0.5, one by"
    " one 0.5 and 0.4, a drain with defaults 0.4; 200 idle polls 1.5 statements/s and 2% of a core,"
    " Complete's p99 beside them within 1.3; enqueue to remote handler at 50/s p50 under 5 ms"
)
PARTS = ("rates", "idle", "latency")
# The name of a variant, how many polls, on how many queues, and whether their workers beat.
IDLE = (
    ("no polls", 0, 1, False),
    ("200 polls, 1 queue", 200, 1, False),
    ("200 polls, 20 queues", 200, 20, False),
    ("200 polls that beat", 200, 20, True),
)
CHART = Bars(
    (
        ("tasks/s", "tasks a second"),
        ("client us", "client, us a task"),
        ("server us", "server, us a task"),
        ("postgres us", "PostgreSQL, us a task"),
        ("complete p50", "Complete p50, ms"),
        ("start p50", "start p50, ms"),
    ),
    logarithmic=("tasks/s", "client us", "server us", "postgres us"),
)
OPTIONS = (
    option("--parts", PARTS, "What of it", among=PARTS),
    option("--seconds", 2.0, "Of each enqueue variant"),
    option("--tasks", 20_000, "To lease or drain in a run"),
    option("--idle-seconds", 20.0, "How long polls wait"),
    option("--calls", 1000, "Complete beside idle polls"),
    option("--rate", 50.0, "Tasks a second for latency"),
    option("--rate-seconds", 10.0, "How long that lasts"),
)
_DIGITS = {
    **dict.fromkeys(("client us", "server us", "postgres us"), 1),
    **dict.fromkeys(("statements/s", "server CPU %", "postgres CPU %", "load"), 2),
    **dict.fromkeys((f"{call} p{p}" for call in ("complete", "alone") for p in (50, 99)), 2),
    **dict.fromkeys(("call p50", "start p50", "start p95", "start p99", "done p50"), 2),
}


def measure(place: Place, given: Given) -> Sheet:
    """Measure all parts, their variants interleaved."""
    sheet = Sheet("server", prediction=PREDICTION, machine=place.machine(), digits=_DIGITS)
    for _ in range(given.runs):
        for part in given.parts:
            {"rates": _rates, "idle": _idle, "latency": _latency}[part](place, sheet, given)
    _compare(sheet)
    return sheet


def _rates(place: Place, sheet: Sheet, given: Given) -> None:
    for kind in server_rates.KINDS:
        for way in WAYS:
            with _fresh(place) as served:
                figures = server_rates.enqueue_run(
                    place, served, way=way, kind=kind, seconds=given.seconds
                )
            _add(sheet, f"enqueue {kind} {way}", figures)
    for way in ("direct", "gRPC"):
        with _fresh(place) as served:
            figures = server_rates.lease_run(place, served, way=way, tasks=given.tasks)
        _add(sheet, f"lease + complete {way}", figures)
    for settings in ("defaults", "tuned"):
        for way in ("direct", "gRPC"):
            with _fresh(place) as served:
                figures = server_rates.drain_run(
                    place, served, way=way, tasks=given.tasks, settings=settings
                )
            _add(sheet, f"drain {settings} {way}", figures)


def _idle(place: Place, sheet: Sheet, given: Given) -> None:
    for name, polls, queues, beating in IDLE:
        figures = server_idle.one_run(
            place, polls=polls, queues=queues, beating=beating,
            seconds=given.idle_seconds, calls=given.calls,
        )  # fmt: skip
        _add(sheet, name, figures)


def _latency(place: Place, sheet: Sheet, given: Given) -> None:
    for way, working in (("direct", "direct"), *((way, "gRPC") for way in WAYS)):
        figures = server_latency.one_run(
            place, way=way, working=working, rate=given.rate, seconds=given.rate_seconds
        )
        _add(sheet, f"{way} to {'a direct' if working == 'direct' else 'a remote'} worker", figures)


def _fresh(place: Place) -> Served:
    """Return a server on a schema made anew: one that stayed would have ids of the old one."""
    place.renew()
    return Served(place.dsn)


def _add(sheet: Sheet, variant: str, figures: dict[str, float]) -> None:
    # Each figure with the load it was taken under: other work may share the machine.
    sheet.add(variant, **figures, load=getloadavg()[0])


def _compare(sheet: Sheet) -> None:
    for variant in sheet.variants:
        for way in WAYS[1:]:
            base = variant.removesuffix(way) + "direct"
            if variant.endswith(f" {way}") and sheet.values(base, "tasks/s"):
                share = sheet.ratio(variant, base, "tasks/s")
                sheet.say(f"{variant}: {share:.2f} of direct")
        if sheet.values(variant, "complete p99"):
            for p in ("p50", "p99"):
                with_polls, alone = (
                    sheet.median(variant, f"{which} {p}") for which in ("complete", "alone")
                )
                share = with_polls / alone
                sheet.say(f"{variant}: Complete's {p} is {share:.2f} of that without polls")
