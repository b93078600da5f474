"""The interleaver notices known bugs, each put into a statement for the length of a test.

A suite that finds nothing may be blind: these are the races that queues are known to lose.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants import Mutant
from tests.race.invariants import broken, look
from tests.race.player import FINE, Player, merges
from tests.race.scenes import OPERATIONS, set_up

ORDERS = list(merges([len(FINE)] * 2))
FENCE = [
    (r"\n *and live\.token = asked\.token", ""),
    (r"\n *and live\.lease_id = asked\.lease_id", ""),
]

# A mutant, and a state and a pair that must notice it.
BUGS: list[tuple[Mutant, str, tuple[str, str]]] = [
    (
        Mutant(
            "a lease without its lock",
            "leases/lease_tasks",
            ((r"\n *for update skip locked", ""),),
        ),
        "ready",
        ("lease", "lease"),
    ),
    (
        Mutant(
            "a lease past the front without its lock",
            "leases/lease_past_front",
            ((r"\n *for update skip locked", ""),),
        ),
        "ready",
        ("lease", "lease_past_front"),
    ),
    (
        Mutant(
            "a completion in a transaction without its fence",
            "leases/complete_in_transaction",
            (
                (r"\n *and live\.token = :token.*", ""),
                (r"\n *and live\.lease_id = :lease_id.*", ""),
            ),
        ),
        "ready",
        ("lease", "complete_in_transaction"),
    ),
    (
        Mutant(
            "a complete of an expired lease",
            "leases/complete_tasks",
            ((r"\n *and lease\.expires_at .*", ""),),
        ),
        "run_out",
        ("complete", "cancel"),
    ),
    (
        Mutant(
            "a complete around what is held, of an expired lease",
            "leases/complete_unlocked",
            ((r"\n *and lease\.expires_at .*", ""),),
        ),
        "run_out",
        ("complete_unlocked", "cancel"),
    ),
    (
        Mutant(
            "a complete without its fence",
            "leases/complete_tasks",
            (*FENCE, (r"\n *and live\.state = 'leased'", "")),
        ),
        "leased",
        ("release", "complete"),
    ),
    (
        Mutant(
            "a heartbeat that revives",
            "leases/heartbeat_leases",
            ((r"\n *and lease\.expires_at .*", ""),),
        ),
        "run_out",
        ("heartbeat", "reap"),
    ),
    (
        Mutant(
            "a fail without its fence and lock",
            "leases/fail_tasks",
            (*FENCE, (r"\n *for update of live skip locked", "")),
        ),
        "leased",
        ("fail", "release"),
    ),
    (
        Mutant(
            "a reap without its lock",
            "maintenance/reap_leases",
            ((r"\n *for update of live skip locked", ""), (r"\n *for update skip locked", "")),
        ),
        "run_out",
        ("reap", "complete_in_transaction"),
    ),
    (
        Mutant(
            "a cancel without its lock",
            "tasks/cancel_tasks",
            ((r"\n *for update", ""), (r"\n *and live\.token = mine\.token", "")),
        ),
        "ready",
        ("lease", "cancel"),
    ),
    (
        Mutant(
            "a takeover without its stamp",
            "tasks/enqueue_tasks",
            ((r"held\.stamp = excluded\.seen_stamp", "true"),),
        ),
        "succeeded",
        ("enqueue", "enqueue"),
    ),
    (
        Mutant(
            "a requeue that does not stamp its key",
            "tasks/requeue_tasks",
            ((r"stamp = case .* end,", "stamp = held.stamp,"),),
        ),
        "succeeded",
        ("requeue", "enqueue"),
    ),
    (
        Mutant(
            "a failure that forgets a cancel",
            "leases/fail_tasks",
            ((r"live\.cancel_requested_at is not null", "false"),),
        ),
        "leased",
        ("cancel", "fail"),
    ),
]  # fmt: skip


@pytest.fixture(params=BUGS, ids=lambda bug: bug[0].name)
def bug(request: pytest.FixtureRequest) -> Iterator[tuple[str, tuple[str, str]]]:
    """A state and a pair; the bug that they must notice is in its statement meanwhile."""
    mutant, state, pair = request.param
    with mutant.put_in():
        yield state, pair


async def test_a_known_bug_is_noticed(bug: tuple[str, tuple[str, str]], player: Player) -> None:
    state, pair = bug
    found: list[str] = []
    for order in ORDERS:
        scene = await set_up(player.admin, state)
        outcomes = await player.play(scene, [OPERATIONS[name] for name in pair], order)
        found += broken(scene, outcomes, await look(scene))

    assert found


def test_every_order_of_two_times_three_steps_is_played_once() -> None:
    assert len(ORDERS) == len(set(ORDERS)) == 20
    assert all(order.count(0) == order.count(1) == 3 for order in ORDERS)
