"""A database whose clock is a gate, and actors on it that stop there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.race.player import GATE, Actor, Player, connect
from tests.race.scenes import OPERATIONS, set_up
from wherry.testing import TemplateServer


@pytest.fixture(scope="module")
def race_dsn(wherry_server: TemplateServer) -> Iterator[str]:
    """A database of this module's own; each schedule uses a queue of its own in it."""
    with wherry_server.database() as dsn:
        yield dsn


@pytest.fixture
async def player(race_dsn: str) -> AsyncIterator[Player]:
    """Three actors, all of whose statements have been planned."""
    admin = await connect(race_dsn)
    await admin.execute(GATE.encode())
    for table in ("live", "lease", "key", "attempt", "finished_default"):
        # An ANALYZE in between would have a statement planned anew, and planning asks the clock.
        await admin.execute(f"alter table wherry.{table} set (autovacuum_enabled = false)".encode())
    await admin.execute("vacuum wherry.live, wherry.lease, wherry.finished_default")
    actors = []
    for gate in (1, 2, 3):
        connection = await connect(race_dsn, **{"race.gate": str(gate)})
        actors.append(Actor(connection, gate))
        for operation in OPERATIONS.values():
            scene = await set_up(admin, "leased")
            await actors[-1].run(operation, scene)
            await connection.execute("rollback")
    yield Player(admin, actors)
    for actor in actors:
        await actor.connection.close()
    await admin.close()
