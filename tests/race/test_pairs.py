"""Every order of the steps of every two operations on one task leaves the invariants whole.

For each state of the task, each operation that may change something there is played against every
other operation, itself included, in all twenty orders of their steps.
"""

from __future__ import annotations

import pytest

from tests.race.invariants import broken, look
from tests.race.player import FINE, Player, merges
from tests.race.scenes import OPERATIONS, SCENES, partners, set_up

ORDERS = list(merges([len(FINE)] * 2))


@pytest.mark.parametrize(
    ("state", "first"), [(state, first) for state in SCENES for first in sorted(SCENES[state][1])]
)
async def test_two_operations_in_every_order_leave_the_invariants_whole(
    player: Player, state: str, first: str
) -> None:
    found: list[str] = []
    pairs = [(first, second) for second in partners(state, first)]
    for pair in pairs:
        for order in ORDERS:
            scene = await set_up(player.admin, state)

            outcomes = await player.play(scene, [OPERATIONS[name] for name in pair], order)

            after = await look(scene)
            found += [
                f"{state}: {' | '.join(pair)} in order {order}: {sentence};"
                f" answers {[outcome.answer for outcome in outcomes]}"
                for sentence in broken(scene, outcomes, after)
            ]
    print(f"{len(pairs) * len(ORDERS)} orders")
    assert found == []
