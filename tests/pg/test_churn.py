"""Indexes stay as large as what they hold, however many tasks have gone through them.

A soak in small: tasks of every fate come and go, generation after generation, and vacuum follows.
Nothing here is a matter of time: the clock is moved, and vacuum is called.
"""

from __future__ import annotations

import random
from datetime import timedelta

from tests.pg.support import Session, spec
from wherry.commands.fronts import MoveFront
from wherry.commands.tally import RollFlow
from wherry.domain.lease import Lease
from wherry.domain.options import TaskSpec
from wherry.testing import Clock

TABLES = ("live", "lease", "key", "attempt", "finished", "payload", "flow", "tally", "front")
GENERATIONS, SETTLED = 70, 20
TASKS = 200
# In minutes, of which each generation has one.
LONGEST_WAIT, KEPT = 10, 3
LARGER = 3
# Of a page each, and of few, the size says nothing.
LEAST_BYTES = 8 * 8192
PAST = "select id from wherry.finished where finished_at < %s"
SIZES = """
select index.relname::text, pg_relation_size(index.oid)
  from pg_class as index
  join pg_index on pg_index.indexrelid = index.oid
  join pg_class as of on of.oid = pg_index.indrelid
 where of.relnamespace = 'wherry'::regnamespace
   and (of.relname = any (%s) or of.relname like 'finished%%')
   and index.relkind = 'i'
"""


class Churn:
    """What lives through the generations."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session, self._clock = session, clock
        self._drawn = random.Random(9)
        self._number = 0

    def generation(self) -> None:
        """Let a generation come, and most of it go."""
        self._clock.advance(minutes=1)
        self._number += 1
        self._session.enqueue_many(*(self._spec(n) for n in range(TASKS)))
        while self._session.promote().promoted:
            pass
        self._session.reap(batch=TASKS)
        leases = self._session.lease(2 * TASKS)
        self._end(leases)
        _, horizon = self._session.call(MoveFront("default"))
        self._session.call(MoveFront("default", (-10, 0, 10), horizon))
        while self._session.call(RollFlow()):
            pass
        past = self._session.rows(PAST, self._clock.now() - timedelta(minutes=KEPT))
        self._session.purge(*(id_ for (id_,) in past))
        for table in TABLES:
            self._session.rows(f"vacuum wherry.{table}")

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each index."""
        return dict(self._session.rows(SIZES, list(TABLES)))

    def rows(self) -> int:
        """Return how many tasks there are."""
        return int(self._session.value("select count(*) from wherry.tasks"))

    def _spec(self, n: int) -> TaskSpec:
        waits = self._drawn.randrange(LONGEST_WAIT) if n % 10 == 0 else 0
        return spec(
            payload={"text": "x" * (5000 if n % 20 == 0 else 5)},
            key=f"{self._number}-{n}",
            key_ttl=0,
            delay=60.0 * waits,
            priority=self._drawn.choice((-10, 0, 0, 0, 10)),
            max_attempts=3,
        )

    def _end(self, leases: list[Lease]) -> None:
        by_fate = {fate: leases[fate::20] for fate in range(20)}
        # Nobody says anything of these: their lease runs out.
        lost = by_fate.pop(0)
        self._session.fail(*by_fate.pop(1), after=120.0)
        self._session.release(*by_fate.pop(2))
        self._session.cancel(*(lease.id for lease in by_fate.pop(3)))
        done = [lease for some in by_fate.values() for lease in some]
        self._session.complete(*done)
        assert lost


def test_no_index_grows_with_what_has_passed_through_it(session: Session, clock: Clock) -> None:
    """SCL-09: once settled no index gets three times as large, with as many tasks as before."""
    churn = Churn(session, clock)
    for _ in range(SETTLED):
        churn.generation()
    settled, rows = churn.sizes(), churn.rows()

    largest = dict(settled)
    for _ in range(GENERATIONS - SETTLED):
        churn.generation()
        # A day that has begun meanwhile has indexes of its own.
        for name, size in churn.sizes().items():
            largest[name] = max(largest.get(name, 0), size)

    assert churn.rows() < 1.5 * rows
    assert {"live_pkey", "live_ready", "live_delayed", "key_pkey", "lease_pkey"} <= settled.keys()
    assert {
        name: (settled.get(name), size)
        for name, size in largest.items()
        if size > LARGER * max(settled.get(name, 0), LEAST_BYTES)
    } == {}
