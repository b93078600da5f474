"""The schedules of the shop's database, and what became of their times."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

import psycopg

from tests.browser.shop import SCHEDULES
from wherry.domain.cron import Cron

_TICKS = 30


def fill_schedules(connection: psycopg.Connection[Any], now: datetime) -> None:
    """Write schedules as workers of the shop would have, and what became of their times.

    The tasks that they name are some that there are.
    """
    [[first]] = connection.execute("select min(id) from wherry.finished").fetchall()
    instance = str(uuid.UUID(int=1))
    for n, each in enumerate(SCHEDULES):
        cron = Cron(each.cron, each.tz)
        next_at = cron.next_after(now)
        began = now - timedelta(seconds=each.every_seconds * (_TICKS + 1))
        times = list(takewhile(lambda at: at <= now, cron.after(began)))[::-1]
        last = times[0]
        paused_at = now - timedelta(hours=5) if each.paused else None
        due = None if each.paused or not each.declared else next_at
        connection.execute(
            "insert into wherry.schedule (name, cron, tz, type, queue, priority, max_attempts,"
            " timeout_seconds, payload, missed, overlap, definition, by_hand, created_at,"
            " changed_at, next_at, due_at, last_at, fired, missed_ticks, overlapped, paused_ticks,"
            " by_hand_runs, paused_at, paused_by, pause_reason)"
            " values (%s, %s, %s, %s, %s, 0, 5, 600, %s, 'last', %s, %s, false, %s, %s, %s, %s,"
            " %s, %s, %s, %s, %s, 1, %s, %s, %s)",
            [
                *(each.name, each.cron, each.tz, each.type, each.queue),
                *(json.dumps({"full": True}), "skip" if each.overlapped else "allow", str(n)),
                *(now - timedelta(days=90), now - timedelta(days=11), next_at, due, last),
                *(each.fired, each.missed, each.overlapped, 60 if each.paused else 0),
                *(paused_at, "token:grace" if each.paused else None),
                "the supplier moves its API" if each.paused else None,
            ],
        )
        if each.declared:
            connection.execute(
                "insert into wherry.declaration (schedule, instance, definition)"
                " values (%s, %s, %s)",
                [each.name, instance, str(n)],
            )
        for back, at in enumerate(times[:_TICKS]):
            outcome = "fired"
            if each.paused and back < 4:
                outcome = "paused"
            elif each.missed and back in (6, 13):
                outcome = "missed"
            elif each.overlapped and back % 9 == 4:
                outcome = "overlapped"
            task = first + (back * 37 + n * 11) % 400 if outcome == "fired" else None
            connection.execute(
                "insert into wherry.tick (schedule, planned_at, until_at, n, outcome, task_id, at)"
                " values (%s, %s, %s, 1, %s, %s, %s)",
                [each.name, at, at, outcome, task, at + timedelta(seconds=0.4)],
            )
