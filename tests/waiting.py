"""Somebody who waits for a queue, and hears of what is enqueued there."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql


class Waiting:
    """Marks a queue as waited for, on a connection in autocommit, and listens."""

    def __init__(self, connection: psycopg.Connection[Any], queue: str = "default") -> None:
        self._connection = connection
        found = connection.execute("select channel from wherry.settings").fetchone()
        assert found is not None
        [self._channel] = found
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
        connection.execute(
            "insert into wherry.waiting (queue, instance, expires_at) values (%s, %s, 'infinity')",
            (queue, uuid4()),
        )

    def heard(self) -> int:
        """Return how many notifications came since the last look.

        One of our own comes last, so that nothing can still be on its way.
        """
        self._connection.execute("select pg_notify(%s, 'end')", (self._channel,))
        count = 0
        for notification in self._connection.notifies(timeout=10):
            if notification.payload == "end":
                break
            count += 1
        return count
