"""What people of the shop did by hand: what is paused, and what the audit says."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import psycopg


def fill_by_hand(connection: psycopg.Connection[Any], now: datetime) -> None:
    """Pause a queue and a type, and write what was done by hand in the last hours."""
    connection.execute(
        "insert into wherry.paused (queue, paused_at, actor, reason) values (%s, %s, %s, %s)",
        [
            "webhooks",
            now - timedelta(minutes=26),
            "token:ada",
            "hooks.example.net is down, ticket 4411",
        ],
    )
    connection.execute(
        "insert into wherry.paused_type (type, queue, paused_at, actor, reason)"
        " values (%s, %s, %s, %s, %s)",
        [
            *("send_newsletter", "", now - timedelta(minutes=48), "token:grace"),
            "the unsubscribe link is broken",
        ],
    )
    did = (
        (
            "token:ada",
            "pause_queue",
            {"queue": "webhooks"},
            1,
            "hooks.example.net is down, ticket 4411",
        ),
        (
            "token:grace",
            "pause_type",
            {"type": "send_newsletter", "queue": None},
            1,
            "the unsubscribe link is broken",
        ),
        (
            "token:ada",
            "direct_workers",
            {"names": ["bulk-1"], "directive": "drain"},
            1,
            "moving to the new machine",
        ),
        ("token:grace", "requeue_tasks", {"ids": [48210012, 48210013]}, 2, None),
        ("cli:root", "create_token", {"name": "grace"}, 1, "on call this week"),
    )
    # The audit goes by its numbers.
    for n, (actor, action, target, count, reason) in reversed([*enumerate(did)]):
        connection.execute(
            "insert into wherry.audit (at, actor, peer, action, target, count, reason)"
            " values (%s, %s, %s, %s, %s, %s, %s)",
            [
                now - timedelta(minutes=26 + 22 * n),
                actor,
                "10.0.3.17",
                action,
                json.dumps(target),
                count,
                reason,
            ],
        )
