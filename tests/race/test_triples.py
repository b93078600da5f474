"""Every order of the steps of every three operations: on request, since it takes most of an hour.

    pytest tests/race --race-triples

Two steps each here (the statement as a whole, then commit or rollback), in all ninety orders.
"""

from __future__ import annotations

import itertools

import pytest

from tests.race.invariants import broken, look
from tests.race.player import COARSE, Player, merges
from tests.race.scenes import OPERATIONS, SCENES, set_up

ORDERS = list(merges([len(COARSE)] * 3))
NAMES = list(OPERATIONS)


def triples_of(state: str, first: str) -> list[tuple[str, str, str]]:
    """Return the triples in which *first* is the first that may change something, each once."""
    acting = SCENES[state][1]
    others = [
        name for name in NAMES if name not in acting or NAMES.index(name) >= NAMES.index(first)
    ]
    return [(first, *rest) for rest in itertools.combinations_with_replacement(others, 2)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("state", "first"), [(state, first) for state in SCENES for first in sorted(SCENES[state][1])]
)
async def test_three_operations_in_every_order_leave_the_invariants_whole(
    player: Player, state: str, first: str
) -> None:
    found: list[str] = []
    for triple in triples_of(state, first):
        operations = [OPERATIONS[name] for name in triple]
        for order in ORDERS:
            scene = await set_up(player.admin, state)

            outcomes = await player.play(scene, operations, order, steps=COARSE)

            after = await look(scene)
            found += [
                f"{state}: {' | '.join(triple)} in order {order}: {sentence};"
                f" answers {[outcome.answer for outcome in outcomes]}"
                for sentence in broken(scene, outcomes, after)
            ]
    assert found == []
