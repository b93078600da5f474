"""The plan of a run: drawn from its seed alone, and never without any kind of fault."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.nemesis.faults import EACH_ROUND, plan


@pytest.mark.parametrize("seconds", [15.0, 20.0, 75.0])
def test_a_plan_holds_every_kind_of_fault_in_order_and_in_time(seconds: float) -> None:
    faults = plan(random.Random(1), seconds=seconds)

    assert {fault.kind for fault in faults} == set(EACH_ROUND)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    assert all(0.0 <= fault.at <= seconds for fault in faults)


def test_the_same_seed_gives_the_same_plan_and_another_one_another() -> None:
    assert plan(random.Random(1), seconds=20.0) == plan(random.Random(1), seconds=20.0)
    assert plan(random.Random(1), seconds=20.0) != plan(random.Random(2), seconds=20.0)


def test_the_server_is_not_shot_more_often_than_its_keeper_bears() -> None:
    for seed in range(20):
        faults = plan(random.Random(seed), seconds=300.0)

        restarts = [fault.at for fault in faults if fault.kind == "restart the server"]
        a_minute = Counter(int(at // 60) for at in restarts)
        assert max(a_minute.values()) <= 3
