"""What a server tells Prometheus: all tasks, from the database, and what this process does itself.

All tasks are asked for once in some seconds, however often anybody wants to know and however many
of them do, on a connection of its own that gives up soon. While the database is away the rest is
told all the same, and that it is away.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from time import monotonic
from typing import Final

import psycopg

from wherry.commands.flow import CountStates, ReadTotals
from wherry.commands.queues import ReadLimits
from wherry.commands.schedules import CountTicks, TicksCounted
from wherry.commands.upkeep import ReadUpkeep
from wherry.commands.workers import ListWorkers
from wherry.domain.flow import OTHER, Histogram, States, Totals
from wherry.domain.limits import LimitsSeen
from wherry.domain.upkeep import Upkeep
from wherry.errors import WherryError
from wherry.telemetry.loggers import logger
from wherry.telemetry.readings import Buckets, Reading, added_up
from wherry.transport.base import Transport
from wherry.transport.faults import one_line
from wherry.transport.patience import Patience

log = logger("wherry.server.metrics")

# The session's statement_timeout, in PostgreSQL's words.
STATEMENT_TIMEOUT: Final = "2s"
# So many queues and types are told apart, the first that there ever were; each has a hundred lines.
PAIRS_SHOWN: Final = 200
# The first by name.
SCHEDULES_SHOWN: Final = 200
LIMITS_SHOWN: Final = 200
_KEPT_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 4.0
_STATES: Final = (
    *("ready", "delayed", "parked", "leased"),
    *("succeeded", "failed", "dead", "canceled"),
)

Pair = tuple[str, str]


class Fleet:
    """What the database tells of all tasks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = asyncio.Lock()
        self._patience = Patience()
        self._asked_at = -_KEPT_SECONDS
        self._told: list[Reading] = []

    async def read(self) -> list[Reading]:
        """Return what was told in the last five seconds, or is now; never raises for trouble."""
        async with self._lock:
            if monotonic() - self._asked_at >= _KEPT_SECONDS:
                self._told = await self._ask()
                self._asked_at = monotonic()
            return self._told

    async def _ask(self) -> list[Reading]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                totals = await self._transport.call(ReadTotals())
                states = await self._transport.call(CountStates())
                workers = await self._transport.call(ListWorkers())
                upkeep = await self._transport.call(ReadUpkeep())
                schedules = await self._transport.call(CountTicks())
                limits = await self._transport.call(ReadLimits(LIMITS_SHOWN))
        except (WherryError, psycopg.Error, TimeoutError) as error:
            if self._patience.may_complain():
                log.warning("metrics do without the database: %s", one_line(error))
            return [Reading("wherry_database_up", (), 0)]
        self._patience.reset()
        alive = sum(worker.alive for worker in workers)
        return [
            Reading("wherry_database_up", (), 1),
            Reading("wherry_workers_alive", (), alive),
            *upkeep_readings(upkeep),
            *schedule_readings(schedules),
            *limit_readings(limits, states),
            # Of a thousand queues and types it takes a while, in which others are to be answered.
            *await asyncio.to_thread(fleet_readings, totals, states),
        ]


def upkeep_readings(upkeep: Upkeep) -> list[Reading]:
    """Return the rows of each table, and the age of the oldest snapshot."""
    return [
        *(
            Reading("wherry_table_rows", (table.name, kind), n)
            for table in upkeep.tables
            for kind, n in (("live", table.rows), ("dead", table.dead))
        ),
        Reading("wherry_oldest_snapshot_seconds", (), upkeep.oldest_seconds),
        Reading("wherry_oldest_snapshot_transactions", (), upkeep.oldest_transactions),
        Reading("wherry_sessions_hidden", (), upkeep.hidden_sessions),
    ]


def schedule_readings(told: TicksCounted, *, shown: int = SCHEDULES_SHOWN) -> list[Reading]:
    """Return the ticks of each schedule; those beyond *shown* together as OTHER."""
    sums: Counter[tuple[str, str]] = Counter()
    for n, (name, counts) in enumerate(told.counts.items()):
        for outcome, count in counts.items():
            sums[name if n < shown else OTHER, outcome] += count
    return [
        *(Reading("wherry_schedule_ticks_total", labels, n) for labels, n in sums.items()),
        Reading("wherry_schedules_late_seconds", (), told.late_seconds),
    ]


def limit_readings(seen: LimitsSeen, states: States) -> list[Reading]:
    """Return the limits of queues, how many run under them, and which of them hold tasks up.

    What runs and waits is known from the sums: of a queue that is not counted apart it is not told.
    """
    running: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for count in states.counts:
        running[count.queue] += count.leased
        ready[count.queue] += count.ready
    # Where all are counted apart, a queue that is not among them holds nothing.
    is_all_known = "" not in running
    readings = [Reading("wherry_limited_queues", (), seen.queues)]
    for limit in seen.limits:
        queue = (limit.queue,)
        is_known = is_all_known or limit.queue in running
        runs, waits = running[limit.queue], bool(ready[limit.queue])
        if limit.max_running is not None:
            readings.append(Reading("wherry_queue_running_limit", queue, limit.max_running))
            if is_known:
                held = float(waits and runs >= limit.max_running)
                readings.append(Reading("wherry_queue_limited_running", queue, runs))
                readings.append(Reading("wherry_queue_held_up", (*queue, "running"), held))
        if limit.starts_per_second is not None:
            allowed = limit.starts_per_second
            readings.append(Reading("wherry_queue_starts_per_second_limit", queue, allowed))
            if is_known:
                held = float(waits and bool(limit.is_rate_reached))
                readings.append(Reading("wherry_queue_held_up", (*queue, "rate"), held))
    return readings


def fleet_readings(
    totals: Totals, states: States, *, pairs_shown: int = PAIRS_SHOWN
) -> list[Reading]:
    """Return the numbers of each queue and type; those beyond *pairs_shown* together as OTHER."""
    shown = {(total.queue, total.type) for total in totals.totals[:pairs_shown]}
    readings: list[Reading] = []
    for total in totals.totals:
        pair = _label((total.queue, total.type), shown)
        for kind, n in total.counts.items():
            name = "wherry_leases_lost_total" if kind == "lost" else f"wherry_tasks_{kind}_total"
            readings.append(Reading(name, pair, n))
        for name, times in (("wait", total.wait), ("run", total.run)):
            readings.append(Reading(f"wherry_task_{name}_seconds", pair, _buckets(times)))
    for count in states.counts:
        pair = _label((count.queue, count.type), shown)
        readings += [
            Reading("wherry_tasks", (*pair, state), getattr(count, state)) for state in _STATES
        ]
    readings += _oldest_due(states, {queue for queue, _ in shown})
    if states.tallied_seconds is not None:
        readings.append(Reading("wherry_tally_age_seconds", (), states.tallied_seconds))
    return added_up(readings)


def _oldest_due(states: States, shown: set[str]) -> Iterable[Reading]:
    """Of a queue in which nothing is due it is 0: a number that is gone ends no alarm."""
    seconds = {queue if queue in shown and queue else OTHER: 0.0 for queue in shown}
    for queue, due_seconds in states.oldest_due_seconds.items():
        label = queue if queue in shown and queue else OTHER
        seconds[label] = max(seconds.get(label, 0.0), due_seconds)
    return [Reading("wherry_oldest_due_seconds", (queue,), s) for queue, s in seconds.items()]


def _label(pair: Pair, shown: set[Pair]) -> Pair:
    return pair if pair in shown and pair[0] else (OTHER, OTHER)


def _buckets(times: Histogram) -> Buckets:
    return Buckets(times.counts, times.seconds)
