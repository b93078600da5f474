"""What made all instances of others come at the same moment: everything periodic is jittered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from time import monotonic
from typing import Any
from unittest import mock

import pytest

from tests.pg.schedules import schedule
from tests.worker.fake import BlockingFakeTransport, FakeTransport, in_turn
from tests.worker.test_maintenance import STEPS
from wherry.cli.supervisor import Supervisor
from wherry.commands.declaring import DeclareSchedules, Stood
from wherry.commands.maintenance import LookAround, Seen
from wherry.commands.queues import ListStarts
from wherry.commands.workers import BeatWorker, BeatWorkers, TransactionsEnded
from wherry.maintenance.declaring import Declaring
from wherry.maintenance.scheduler import Scheduler
from wherry.maintenance.service import Maintenance
from wherry.maintenance.steps import RARELY
from wherry.server.marks import Marks
from wherry.server.roster import Roster
from wherry.transport.patience import Patience
from wherry.worker.held import Held
from wherry.worker.keeper import Keeper
from wherry.worker.starts import Starts
from wherry.worker.wakeups import Wakeups

MANY = 200
# Longer than any other wait.
NEVER = 1e9


def assert_spread(seconds: list[float], *, least: float, most: float) -> None:
    """No twentieth of the window holds many more than its share."""
    assert min(seconds) >= least
    assert max(seconds) <= most
    slices = Counter(int((each - least) / (most - least) * 20) for each in seconds)
    assert len(slices) >= 15
    assert max(slices.values()) < len(seconds) * 0.15


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each wait was meant to be; none of them takes any time."""
    asked: list[float] = []
    timeout = asyncio.timeout

    def recorded(delay: float | None) -> Any:
        asked.append(delay or 0.0)
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", recorded)
    return asked


@pytest.mark.parametrize("listening", [True, False])
async def test_idle_workers_do_not_poll_in_step(limits: list[float], listening: bool) -> None:
    """RET-04."""
    transport = FakeTransport({TransactionsEnded: lambda _: True})
    for _ in range(MANY):
        wakeups = Wakeups(
            transport,
            instance="00000000-0000-0000-0000-000000000000",
            queues=("default",),
            poll_seconds=1.0,
            poll_seconds_listening=1.0,
            is_listening=lambda: listening,
        )
        before = len(limits)
        while len(limits) == before or limits[-1] < 0.5:
            await wakeups.pause()

    assert_spread([each for each in limits if each >= 0.5], least=0.8, most=1.0)


def maintenance(*, seen: Seen, look_seconds: float) -> Maintenance:
    """The maintenance of an instance that finds nothing else to do than what is *seen*."""
    script = {step: in_turn(answer) for step, answer in {**STEPS, LookAround: seen}.items()}
    return Maintenance(
        FakeTransport(script),
        look_seconds=lambda: look_seconds,
        queues=("default",),
        found_work=lambda: None,
    )


@pytest.mark.parametrize(
    ("seen", "look_seconds", "least", "most"),
    [
        pytest.param(Seen(), 1.0, 0.8, 1.0, id="looks"),
        # A lease that is about to end, whose holder may have died, is waited for by all.
        pytest.param(Seen(lease_ends_in=10.0), NEVER, 10.0, 10.5, id="a lease"),
    ],
)
async def test_maintenance_of_many_instances_is_not_in_step(
    limits: list[float], seen: Seen, look_seconds: float, least: float, most: float
) -> None:
    """RET-04: reapers that started at the same moment."""
    for _ in range(MANY):
        await maintenance(seen=seen, look_seconds=look_seconds)._tick()

    # What is late on a busy machine waits for less.
    assert_spread([max(least, each) for each in limits], least=least, most=most)


@pytest.mark.usefixtures("limits")
async def test_rare_steps_of_many_instances_are_not_in_step() -> None:
    """RET-04: each of them, since one that comes once an hour is the dearest."""
    shares: list[list[float]] = [[] for _ in RARELY]
    for _ in range(MANY):
        began_at = monotonic()
        made = maintenance(seen=Seen(), look_seconds=NEVER)
        await made._tick()
        for share, rhythm in zip(shares, made._rhythms, strict=True):
            # Of a moment within the turn, not of its beginning.
            share.append(min(1.0, (rhythm.due_at - began_at) / rhythm.every))

    for share in shares:
        assert_spread(share, least=0.8, most=1.0)


async def beats() -> float:
    keeper = Keeper(
        BlockingFakeTransport(),
        Held(),
        me=BeatWorker(instance="i", name="w", host="h", pid=1, queues=(), types=()),
        lease_seconds=30.0,
        blocked_after=60.0,
        call_soon=lambda function: None,
        tell=lambda news: None,
    )
    with mock.patch.object(keeper, "_stop") as stop:
        keeper._run()
    pause: float = stop.wait.call_args.args[0]
    return pause


async def starts() -> float:
    """When a task of a queue with a rate may start, all who wait there are told of one moment."""
    found = Starts(FakeTransport({ListStarts: lambda _: {"q": 10.0}}), queues=("q",))
    return (await found.after(monotonic()))["q"]


async def restarts() -> float:
    """What has killed one worker may have killed those of all machines."""
    wanted = mock.Mock(name="w", until_empty=False, shutdown_timeout=timedelta(seconds=1))
    supervisor = Supervisor([], wanted, processes=1, environment={})
    pauses: list[float] = []

    async def wait_for(stopping: Coroutine[Any, Any, Any], pause: float) -> None:
        stopping.close()
        pauses.append(pause)
        if len(pauses) == 5:
            supervisor._stopping.set()

    with (
        mock.patch.object(supervisor, "_run_one", mock.AsyncMock(return_value=-9)),
        mock.patch.object(asyncio, "wait_for", wait_for),
    ):
        await supervisor._keep(1, 0)
    return pauses[-1]


async def schedules() -> float:
    scheduler = Scheduler(FakeTransport().call)
    began_at = monotonic()
    scheduler.seen(10.0)
    return scheduler.next_at - began_at


async def declarations() -> float:
    transport = FakeTransport({DeclareSchedules: lambda _: Stood()})
    began_at = monotonic()
    declaring = Declaring(transport.call, [DeclareSchedules((schedule(),), "i")])
    await declaring.declare()
    return declaring.next_at - began_at


async def looks_of_a_server() -> float:
    marks = Marks(
        FakeTransport(),
        instance="i",
        waited=lambda: ["q"],
        found=lambda queues: None,
        is_listening=lambda: True,
        look_seconds=1.0,
        look_seconds_listening=10.0,
    )
    began_at = monotonic()
    await marks._look({"q"})
    return marks._look_at - began_at


async def beats_of_a_server() -> float:
    roster = Roster(FakeTransport({BeatWorkers: lambda _: []}), changed=lambda who, before: None)
    began_at = monotonic()
    await roster._pass(lambda: ())
    return roster._all_at - began_at


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("wait", "least", "most"),
    [
        (beats, 4.0, 5.0),
        (restarts, 4.0, 8.0),
        (starts, 10.005, 10.05),
        (schedules, 10.001, 10.03),
        (declarations, 48.0, 60.0),
        (looks_of_a_server, 8.0, 10.0),
        (beats_of_a_server, 15.3, 18.0),
    ],
)
async def test_whatever_else_comes_again_is_not_in_step(
    wait: Callable[[], Awaitable[float]], least: float, most: float
) -> None:
    """RET-04: of workers that started at the same moment, and of servers."""
    # They are counted from a little earlier here.
    waits = [min(most, await wait()) for _ in range(MANY)]

    assert_spread(waits, least=least, most=most)


def test_those_who_lost_the_database_do_not_come_back_in_step() -> None:
    """RET-04: and less and less often."""
    patiences = [Patience() for _ in range(MANY)]

    pauses = [[patience.next_pause() for patience in patiences] for _ in range(10)]

    for longest, seconds in zip([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5], pauses, strict=True):
        assert_spread(seconds, least=longest / 2, most=longest)
