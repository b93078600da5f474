"""Plays transactions against one another in a given order, without luck and without sleep.

Each actor runs one operation in a transaction of its own, in three steps: *start* sends the
statement and lets it stop at a gate, after its snapshot was taken and (for most) before its first
lock; *go* opens the gate; *finish* commits or rolls back. So an order of steps also puts a
whole transaction of somebody else between a statement's snapshot and its locks: there the worst
races are.

The gate is in `wherry.now()`, which every statement asks: see GATE. Whether a session waits is
asked of PostgreSQL (pg_isolation_test_session_is_blocked), never guessed from time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from wherry.commands.base import Command
from wherry.config import PoolSettings
from wherry.transport.base import arun
from wherry.transport.connect import connection_text

R = TypeVar("R")
PATIENCE_SECONDS = 20.0
LOCKS = 0x57_52_43
# The steps of an operation. Taken two at a time there is no stop between a snapshot and its locks.
FINE = (("start",), ("go",), ("finish",))
COARSE = (("start", "go"), ("finish",))

GATE = f"""
create or replace function wherry.now() returns timestamptz
    language plpgsql stable
    as $$
begin
    if current_setting('race.gate', true) <> '' then
        perform pg_advisory_lock_shared({LOCKS}, current_setting('race.gate')::integer);
        perform pg_advisory_unlock_shared({LOCKS}, current_setting('race.gate')::integer);
    end if;
    return statement_timestamp();
end
$$
"""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What an operation answered, and whether its transaction was committed."""

    name: str
    answer: Any
    committed: bool


@dataclass(frozen=True)
class Operation:
    """Something that one transaction does; an exception of *refusals* makes it roll back."""

    name: str
    command: Callable[[Any], Command[Any]]
    commits: bool = True
    refusals: tuple[type[Exception], ...] = ()


async def connect(dsn: str, **options: str) -> psycopg.AsyncConnection[Any]:
    """Connect as our own sessions do, but plan each statement only once, while nothing is gated."""
    options = {"plan_cache_mode": "force_generic_plan", "deadlock_timeout": "20ms", **options}
    text = connection_text(dsn, name="wherry race", settings=PoolSettings(), options=options)
    return await psycopg.AsyncConnection.connect(
        make_conninfo(text, connect_timeout=10), autocommit=True, prepare_threshold=0
    )


class Actor:
    """A session with a gate of its own."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], gate: int) -> None:
        self.connection = connection
        self.pid = connection.info.backend_pid
        self.gate = gate
        self.running: asyncio.Task[Any] | None = None
        self.steps: list[tuple[str, ...]] = []

    async def run(self, operation: Operation, scene: Any) -> Outcome[Any]:
        """Run the operation, and leave its transaction open."""
        command = operation.command(scene)
        await self.connection.execute("begin")
        try:
            answer = await arun(self.connection, command, schema="wherry")
        except operation.refusals as refused:
            return Outcome(operation.name, refused, committed=False)
        except errors.LockNotAvailable:
            # It was kept waiting: as transports do.
            await self.connection.execute("rollback")
            await self.connection.execute("begin")
            answer = await arun(self.connection, command.after_conflict(), schema="wherry")
        return Outcome(operation.name, answer, operation.commits)


class Player:
    """Two or more actors, and the one who moves them."""

    def __init__(self, admin: psycopg.AsyncConnection[Any], actors: Sequence[Actor]) -> None:
        self.admin = admin
        self.actors = list(actors)
        self._pids = [admin.info.backend_pid, *(actor.pid for actor in actors)]

    async def play(
        self,
        scene: Any,
        operations: Sequence[Operation],
        order: Sequence[int],
        *,
        steps: Sequence[tuple[str, ...]] = FINE,
    ) -> list[Outcome[Any]]:
        """Run the operations, one an actor, in the *order* of their steps; return their outcomes.

        A step that cannot be taken because somebody else has to finish first is taken as soon as
        it can be: then this order is the same as one that is played anyway.
        """
        actors = self.actors[: len(operations)]
        for actor in actors:
            actor.steps = list(steps)
        outcomes: dict[int, Outcome[Any]] = {}
        late: list[int] = []
        for index in order:
            late.append(index)
            while late and await self._step(late[0], operations, scene, outcomes):
                late.pop(0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while late:
                for index in list(late):
                    if await self._step(index, operations, scene, outcomes):
                        late.remove(index)
        return [outcomes[index] for index in range(len(actors))]

    async def _step(
        self,
        index: int,
        operations: Sequence[Operation],
        scene: Any,
        outcomes: dict[int, Outcome[Any]],
    ) -> bool:
        """Take an actor's next step; False if it has to wait for somebody else."""
        actor = self.actors[index]
        for step in actor.steps[0]:
            if step == "start":
                await self._gate("pg_advisory_lock", actor)
                actor.running = asyncio.create_task(actor.run(operations[index], scene))
                await self._settle(actor)
            elif step == "go":
                await self._gate("pg_advisory_unlock", actor)
                await self._settle(actor)
            else:
                if not await self._settle(actor):
                    return False
                assert actor.running is not None
                outcomes[index] = outcome = await actor.running
                await actor.connection.execute("commit" if outcome.committed else "rollback")
        actor.steps.pop(0)
        return True

    async def _gate(self, function: str, actor: Actor) -> None:
        await self.admin.execute(f"select {function}({LOCKS}, {actor.gate})".encode())

    async def _settle(self, actor: Actor) -> bool:
        """Wait until the actor's statement is over (True) or waits for somebody (False)."""
        assert actor.running is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                # Asking takes a moment, in which the statement goes on.
                cursor = await self.admin.execute(
                    "select pg_isolation_test_session_is_blocked(%s, %s)", [actor.pid, self._pids]
                )
                [[blocked]] = await cursor.fetchall()
                if actor.running.done():
                    return True
                if blocked:
                    return False


def merges(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every order in which sequences of these lengths can be merged."""
    if not any(lengths):
        yield ()
        return
    for index, length in enumerate(lengths):
        if length:
            rest = [*lengths[:index], length - 1, *lengths[index + 1 :]]
            for order in merges(rest):
                yield (index, *order)
