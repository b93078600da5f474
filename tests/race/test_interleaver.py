"""The interleaver notices known bugs, each put into a statement for the length of a test.

A suite that finds nothing may be blind: these are the races that queues are known to lose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.race.invariants import broken, look
from tests.race.player import FINE, Player, merges
from tests.race.scenes import OPERATIONS, set_up
from wherry.transport import base, render

ORDERS = list(merges([len(FINE)] * 2))
FENCE = [
    (r"\n *and live\.token = asked\.token", ""),
    (r"\n *and live\.lease_id = asked\.lease_id", ""),
]

# What is changed in which statement, and a state and a pair that must notice it.
BUGS: dict[str, tuple[str, list[tuple[str, str]], str, tuple[str, str]]] = {
    "a lease without its lock": (
        "leases/lease_tasks",
        [(r"\n *for update skip locked", "")],
        "ready",
        ("lease", "lease"),
    ),
    "a completion in a transaction without its fence": (
        "leases/complete_in_transaction",
        [(r"\n *and live\.token = :token.*", ""), (r"\n *and live\.lease_id = :lease_id.*", "")],
        "ready",
        ("lease", "complete_in_transaction"),
    ),
    "a complete of an expired lease": (
        "leases/complete_tasks",
        [(r"\n *and lease\.expires_at .*", "")],
        "run_out",
        ("complete", "cancel"),
    ),
    "a heartbeat that revives": (
        "leases/heartbeat_leases",
        [(r"\n *and lease\.expires_at .*", "")],
        "run_out",
        ("heartbeat", "reap"),
    ),
    "a fail without its fence and lock": (
        "leases/fail_tasks",
        [*FENCE, (r"\n *for update of live skip locked", "")],
        "leased",
        ("fail", "release"),
    ),
    "a reap without its lock": (
        "maintenance/reap_leases",
        [(r"\n *for update of live skip locked", ""), (r"\n *for update skip locked", "")],
        "run_out",
        ("reap", "complete_in_transaction"),
    ),
    "a cancel without its lock": (
        "tasks/cancel_tasks",
        [(r"\n *for update", ""), (r"\n *and live\.token = mine\.token", "")],
        "ready",
        ("lease", "cancel"),
    ),
    "a takeover without its stamp": (
        "tasks/enqueue_tasks",
        [(r"held\.stamp = excluded\.seen_stamp", "true")],
        "succeeded",
        ("enqueue", "enqueue"),
    ),
    "a requeue that does not stamp its key": (
        "tasks/requeue_tasks",
        [(r"stamp = case .* end,", "stamp = held.stamp,")],
        "succeeded",
        ("requeue", "enqueue"),
    ),
    "a failure that forgets a cancel": (
        "leases/fail_tasks",
        [(r"live\.cancel_requested_at is not null", "false")],
        "leased",
        ("cancel", "fail"),
    ),
}  # fmt: skip


@pytest.fixture(params=BUGS)
def bug(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a bug that is in its statement until the test is over."""
    statement, changes, _, _ = BUGS[request.param]
    source = render.source

    def changed(name: str) -> str:
        text = source(name)
        if name == statement:
            for pattern, replacement in changes:
                text, times = re.subn(pattern, replacement, text)
                assert times, f"{pattern} is not in {statement} any more"
        return text

    monkeypatch.setattr(render, "source", changed)
    forget_rendered()
    yield request.param
    monkeypatch.undo()
    forget_rendered()


def forget_rendered() -> None:
    base._rendered.cache_clear()
    render.render.cache_clear()


async def test_a_known_bug_is_noticed(bug: str, player: Player) -> None:
    _, _, state, pair = BUGS[bug]
    found: list[str] = []
    for order in ORDERS:
        scene = await set_up(player.admin, state)
        outcomes = await player.play(scene, [OPERATIONS[name] for name in pair], order)
        found += broken(scene, outcomes, await look(scene))

    assert found


def test_every_order_of_two_times_three_steps_is_played_once() -> None:
    assert len(ORDERS) == len(set(ORDERS)) == 20
    assert all(order.count(0) == order.count(1) == 3 for order in ORDERS)
