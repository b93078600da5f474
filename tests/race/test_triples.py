"""Orders of the steps of three operations on one task: some at every run, all on request.

    pytest tests/race --race-triples

Two steps each here (the statement as a whole, then commit or rollback), in ninety orders; all
triples take most of an hour. Which ones a run picks depends on the seed that pytest prints.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import pytest

from tests.race.invariants import broken, look
from tests.race.player import COARSE, Player, merges
from tests.race.scenes import OPERATIONS, SCENES, partners, set_up

ORDERS = list(merges([len(COARSE)] * 3))
AT_EACH_RUN = 30

Schedule = tuple[tuple[str, str, str], tuple[int, ...]]


def schedules_of(state: str, firsts: Iterable[str]) -> Iterator[Schedule]:
    """Yield the triples in which one of *firsts* is the first that may change something, once."""
    for first in firsts:
        for rest in itertools.combinations_with_replacement(partners(state, first), 2):
            for order in ORDERS:
                yield (first, *rest), order


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    acting = {state: sorted(names) for state, (_, names) in SCENES.items()}
    cases: list[tuple[str, list[str], int | None]]
    if metafunc.config.getoption("--race-triples"):
        cases = [(state, [first], None) for state, names in acting.items() for first in names]
    else:
        cases = [(state, names, AT_EACH_RUN) for state, names in acting.items()]
    metafunc.parametrize(
        ("state", "firsts", "most"),
        cases,
        ids=[state if most else f"{state}-{firsts[0]}" for state, firsts, most in cases],
    )


@pytest.mark.timeout(3600)
async def test_three_operations_in_any_order_leave_the_invariants_whole(
    player: Player, state: str, firsts: list[str], most: int | None
) -> None:
    schedules = list(schedules_of(state, firsts))
    if most is not None:
        schedules = random.sample(schedules, most)
    found: list[str] = []
    for triple, order in schedules:
        operations = [OPERATIONS[name] for name in triple]
        scene = await set_up(player.admin, state)

        outcomes = await player.play(scene, operations, order, steps=COARSE)

        after = await look(scene)
        found += [
            f"{state}: {' | '.join(triple)} in order {order}: {sentence};"
            f" answers {[outcome.answer for outcome in outcomes]}"
            for sentence in broken(scene, outcomes, after)
        ]
    assert found == []
    print(f"{len(schedules)} of {state}")
