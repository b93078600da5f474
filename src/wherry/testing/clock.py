"""A clock that tests move: the database's `now()` plus an offset, for one test's database.

Everything that the database decides by time follows it: what is due, what is too old, whether a
lease has run out. A worker counts its leases on its own monotonic clock, which nobody can move:
it does not notice that a lease was made to expire, and finds its report refused, as after a long
stall.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import psycopg

from wherry.config import DEFAULT_SCHEMA
from wherry.domain.names import render_schema

# Who replaces the function takes turns: two at once would get "tuple concurrently updated".
_TAKE_TURN = b"select pg_advisory_xact_lock(hashtext('wherry.now'))"
_READ = """
select p.prosrc
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where n.nspname = %s
   and p.proname = 'now'
"""
# The offset stands in the function's body. Read from a table, it would keep the planner from
# putting the body in place of the call, and plans would not be those of the real clock. It is
# multiplied, as PostgreSQL 14 reads no number above 2^31 in an interval: that is 36 minutes.
_REPLACE = """
create or replace function wherry.now() returns timestamptz
    language sql stable parallel safe
    as $$ select pg_catalog.statement_timestamp() + AHEAD * interval '1 microsecond' $$
"""


class Clock:
    """The clock of one database. The time is the real one until it is moved."""

    def __init__(self, dsn: str, *, schema: str = DEFAULT_SCHEMA) -> None:
        self.dsn = dsn
        self.schema = schema

    def now(self) -> datetime:
        """Return what time it is for the database."""
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
            return self._now(connection)

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> datetime:
        """Move the clock forward for every session of the database, and return the new time.

        A transaction that is open meanwhile may keep the old time until it ends. Raises ValueError
        for a step back: a database's time does not do that.
        """
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        step += by or timedelta()
        if step < timedelta():
            raise ValueError(f"the clock only goes forward, not by {step}")
        with psycopg.connect(self.dsn, connect_timeout=10) as connection:
            connection.execute(_TAKE_TURN)
            [[body]] = connection.execute(_READ, [self.schema]).fetchall()
            before = re.search(r"(\d+) \* interval", body)
            ahead = (int(before[1]) if before else 0) + step // timedelta(microseconds=1)
            replace = render_schema(_REPLACE.replace("AHEAD", str(ahead)), self.schema)
            connection.execute(replace.encode())
            connection.commit()
            return self._now(connection)

    def _now(self, connection: psycopg.Connection) -> datetime:
        text = render_schema("select wherry.now()", self.schema)
        [[now]] = connection.execute(text.encode()).fetchall()
        assert isinstance(now, datetime)
        return now
