"""Three schedulers at one time, and hands that change the schedule meanwhile, in every order."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.pg.schedules import schedule
from tests.race.player import COARSE, FINE, GATE, Actor, Operation, Player, connect, merges
from wherry.commands.base import Command
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.schedules import (
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from wherry.commands.scheduling import SettleSchedules
from wherry.commands.workers import BeatWorker
from wherry.errors import NotFound
from wherry.transport.base import arun

INSTANCES = [str(UUID(int=n)) for n in (1, 2)]
_numbers = itertools.count(1)


@dataclass
class Due:
    """A schedule of its own, one of whose times is due."""

    name: str


def declared(due: Due, n: int, **said: Any) -> DeclareSchedules:
    return DeclareSchedules((schedule(due.name, **said),), INSTANCES[n - 1])


COMMANDS: dict[str, Callable[[Due], Command[Any]]] = {
    "settle": lambda due: SettleSchedules(name=due.name),
    "declare": lambda due: declared(due, 1),
    "change": lambda due: declared(due, 2, payload={"of": "newer"}),
    "pause": lambda due: PauseSchedule(due.name),
    "resume": lambda due: ResumeSchedule(due.name),
    "delete": lambda due: DeleteSchedule(due.name),
    "run": lambda due: RunSchedule(name=due.name),
}
OPERATIONS = {
    name: Operation(name, command, refusals=(NotFound,)) for name, command in COMMANDS.items()
} | {"settle, rolled back": Operation("settle", COMMANDS["settle"], commits=False)}


async def set_up(admin: psycopg.AsyncConnection[Any]) -> Due:
    due = Due(f"s{next(_numbers)}")
    await arun(admin, declared(due, 1), schema="wherry")
    # Far enough from the next one, which is no time of this expression.
    await admin.execute(
        "update wherry.schedule set next_at = date_trunc('minute', next_at - interval '1 minute'),"
        " due_at = date_trunc('minute', next_at - interval '1 minute') where name = %s",
        [due.name],
    )
    return due


@pytest.fixture
async def player(race_dsn: str) -> AsyncIterator[Player]:
    """Three actors, all of whose statements have been planned."""
    admin = await connect(race_dsn)
    await admin.execute(GATE.encode())
    for n, instance in enumerate(INSTANCES):
        beat = BeatWorker(
            instance=instance, name=f"w{n}", host="h", pid=n, queues=None, types=("t",),
            alive_seconds=1e9,
        )  # fmt: skip
        await arun(admin, beat, schema="wherry")
    actors: list[Actor] = []
    for gate in (1, 2, 3):
        connection = await connect(race_dsn, **{"race.gate": str(gate)})
        actors.append(Actor(connection, gate))
        for operation in OPERATIONS.values():
            await actors[-1].run(operation, await set_up(admin))
            await connection.execute("rollback")
    yield Player(admin, actors)
    for actor in actors:
        await actor.connection.close()
    await admin.close()


async def broken(admin: psycopg.AsyncConnection[Any], due: Due) -> str | None:
    """Say which promise is broken, if one is."""
    cursor = await admin.execute(
        "select count(*), count(distinct headers ->> 'wherry-planned-at') from wherry.tasks"
        " where headers ->> 'wherry-schedule' = %(name)s and headers ? 'wherry-planned-at'",
        {"name": due.name},
    )
    [[tasks, times]] = await cursor.fetchall()
    if tasks != times:
        return f"{tasks} tasks for {times} times"
    cursor = await admin.execute(
        "select s.fired, s.by_hand_runs, s.last_at, s.next_at,"
        " count(t.*) filter (where t.outcome = 'fired'),"
        " count(t.*) filter (where t.outcome = 'by_hand')"
        " from wherry.schedule s left join wherry.tick t on t.schedule = s.name"
        " where s.name = %s group by s.name",
        [due.name],
    )
    for fired, runs, last_at, next_at, fired_ticks, run_ticks in await cursor.fetchall():
        if not tasks == fired == fired_ticks:
            return f"{tasks} tasks, {fired} counted, {fired_ticks} ticks"
        if runs != run_ticks:
            return f"{runs} runs counted, {run_ticks} told"
        if last_at is not None and next_at <= last_at:
            return f"its next time {next_at} is settled already"
    return None


def alive(answers: list[Any]) -> list[Any]:
    return [getattr(answer, "fired", answer) for answer in answers]


@pytest.mark.parametrize("second", sorted(OPERATIONS))
async def test_a_scheduler_and_another_operation_in_every_order(
    player: Player, second: str
) -> None:
    """CRON-07."""
    found: list[str] = []
    for order in merges([len(FINE)] * 2):
        due = await set_up(player.admin)
        outcomes = await player.play(due, [OPERATIONS["settle"], OPERATIONS[second]], order)
        sentence = await broken(player.admin, due)
        if sentence is None and second == "settle":
            fired = [outcome.answer.fired for outcome in outcomes if outcome.answer.fired]
            if len(fired) != 1:
                sentence = f"fired: {fired}"
        if sentence is not None:
            found.append(f"{order}: {sentence}; {alive([each.answer for each in outcomes])}")

    assert found == []


async def test_three_schedulers_in_every_order_bring_one_task(player: Player) -> None:
    """CRON-07, S1: also if one of them dies before its commit."""
    found: list[str] = []
    for dying in (False, True):
        names = ["settle", "settle, rolled back" if dying else "settle", "settle"]
        for order in merges([len(COARSE)] * 3):
            due = await set_up(player.admin)
            operations = [OPERATIONS[name] for name in names]
            outcomes = await player.play(due, operations, order, steps=COARSE)
            fired = sum(len(each.answer.fired) for each in outcomes if each.committed)
            # The one that died may have kept the others from it: then it is due still.
            late = await arun(player.admin, SettleSchedules(name=due.name), schema="wherry")
            sentence = await broken(player.admin, due)
            if sentence is not None or fired + len(late.fired) != 1:
                found.append(f"{order}: {sentence}; {fired} and {len(late.fired)}")
            if late.fired and not dying:
                found.append(f"{order}: nobody did it in time")

    assert found == []
