"""The keeper's thread beats in time for all leases, tells what it hears, and never dies of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, cast

import pytest

from tests.facts import wait_for
from tests.worker.fake import BlockingFakeTransport, in_turn, make_lease
from wherry.commands.leases import HeartbeatLeases
from wherry.commands.workers import BeatWorker
from wherry.domain.lease import Lease, Reported
from wherry.errors import SchemaMissing, Unavailable
from wherry.worker import keeper as keeper_module
from wherry.worker.held import Held
from wherry.worker.keeper import Keeper, News

ME = BeatWorker(instance="i", name="w1", host="h", pid=1, queues=(), types=())


@contextmanager
def keeping(
    script: Any, leases: list[Lease], *, lease_seconds: float = 1.0
) -> Iterator[tuple[BlockingFakeTransport, Held, list[News]]]:
    """Run a keeper on a scripted transport; news are handed over at once."""
    transport = BlockingFakeTransport(script)
    held = Held()
    held.add(leases)
    told: list[News] = []
    keeper = Keeper(
        cast(Any, transport),
        held,
        me=ME,
        lease_seconds=lease_seconds,
        blocked_after=60.0,
        call_soon=lambda function: function(),
        tell=told.append,
    )
    keeper.start()
    try:
        yield transport, held, told
    finally:
        keeper.stop()
        keeper.join(timeout=5)
        assert transport.is_closed


def extended(command: HeartbeatLeases) -> list[Reported]:
    """Answer as the database does, and move the deadlines as the command does."""
    for lease in command.leases:
        lease.deadline = monotonic() + command.extend_seconds
    return [Reported.EXTENDED] * len(command.leases)


def test_each_lease_is_beaten_before_a_third_of_it_has_passed() -> None:
    """DBL-01."""
    leases = [make_lease(n, seconds=3.0) for n in range(3)]
    left: list[float] = []

    def beat(command: HeartbeatLeases) -> list[Reported]:
        left.extend(lease.remaining for lease in command.leases)
        return extended(command)

    with keeping({HeartbeatLeases: beat}, leases, lease_seconds=3.0):
        wait_for(lambda: len(left) >= 15)

    # Two thirds, if the machine is never late; what matters is that none came close to its end.
    assert min(left) > 0.9


def test_a_lease_with_time_enough_is_not_beaten() -> None:
    leases = [make_lease(1, seconds=1000.0), make_lease(2, seconds=1.0)]

    with keeping({HeartbeatLeases: extended}, leases) as (transport, _, _):
        wait_for(lambda: len(transport.of(HeartbeatLeases)) >= 3)

    beaten = {lease.id for command in transport.of(HeartbeatLeases) for lease in command.leases}
    assert beaten == {2}


def test_what_is_lost_or_to_be_canceled_is_told() -> None:
    leases = [make_lease(n, seconds=0.5) for n in range(3)]
    answers = [Reported.EXTENDED, Reported.LOST, Reported.CANCEL_REQUESTED]

    with keeping({HeartbeatLeases: in_turn(answers)}, leases) as (_, _, told):
        wait_for(lambda: told)

    assert [lease.id for lease in told[0].lost] == [1]
    assert [lease.id for lease in told[0].canceled] == [2]


def test_one_that_is_held_up_is_asked_for_again() -> None:
    """Somebody else is extending or reaping that very row; nothing is known of it."""
    busy = in_turn([Reported.BUSY], [Reported.BUSY], [Reported.EXTENDED])

    with keeping({HeartbeatLeases: busy}, [make_lease(1, seconds=0.5)]) as (transport, held, told):
        wait_for(lambda: len(transport.of(HeartbeatLeases)) >= 3)

    assert told == []
    assert len(held) == 1


@pytest.mark.parametrize(
    "error",
    [Unavailable("gone"), SchemaMissing("wherry"), KeyError("a bug")],
    ids=lambda error: type(error).__name__,
)
def test_beats_go_on_whatever_one_of_them_met_and_the_log_is_told_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    lease = make_lease(1, seconds=1.0)

    with keeping({HeartbeatLeases: in_turn(error)}, [lease]) as (transport, _, told):
        wait_for(lambda: len(transport.of(HeartbeatLeases)) >= 6)

    assert told == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    # Only what is our own mistake has a traceback.
    assert bool(caplog.records[0].exc_info) is isinstance(error, KeyError)


def test_a_worker_with_long_leases_says_often_enough_that_it_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others would park the tasks of its types else, as if nobody knew them."""
    monkeypatch.setattr(keeper_module, "_BEAT_WORKER_EVERY", 0.0)

    with keeping({}, [], lease_seconds=86_400) as (transport, _, _):
        # It looks every few seconds, however long its leases are.
        wait_for(lambda: len(transport.of(BeatWorker)) >= 2, seconds=10)
