"""Whatever is called in whatever order, an App answers as the model does, and nothing vanishes.

`--property-examples 20000` makes it a hunt, with other examples at each run.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import Calls
from tests.property.play import Place

IN_THE_SUITE = 60
THROUGH_A_SERVER = 12
STEPS = 40
PLAIN = settings(
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# What no example did shows nothing.
SEEN = (
    "enqueue true", "enqueue false", "complete in tx true", "complete in tx false",
    "heartbeat extended", "heartbeat lost",
    "complete done", "complete lost",
    "fail requeued", "fail failed", "fail dead", "fail already_done", "fail lost",
    "snooze requeued", "release requeued", "release lost",
    "cancel canceled", "cancel requested", "cancel final",
    "requeue queued", "requeue not_final", "requeue unknown",
    "purge purged", "purge not_final",
    "maintain promoted", "maintain reaped", "maintain dead", "maintain expired",
)  # fmt: skip


def play(place: Place, chosen: settings) -> None:
    """Play examples at a place; raises what the first that went wrong did."""
    # Typed as a class, and called without arguments.
    machine: Any = partial(Calls, place)
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.timeout(36_000)
def test_calls_in_any_order_are_answered_as_by_the_model(
    place: Place, examples: int | None
) -> None:
    chosen = settings(PLAIN, max_examples=examples or IN_THE_SUITE, derandomize=examples is None)

    play(place, chosen)

    print(dict(sorted(place.answers.items())))
    assert examples or [answer for answer in SEEN if not place.answers[answer]] == []


@pytest.mark.timeout(36_000)
def test_a_server_answers_as_the_database_does(
    place_behind_a_server: Place, examples: int | None
) -> None:
    place = place_behind_a_server
    # Each call costs a round trip more.
    most = examples // 4 + 1 if examples else THROUGH_A_SERVER
    chosen = settings(PLAIN, max_examples=most, derandomize=examples is None)

    play(place, chosen)

    print(dict(sorted(place.answers.items())))
    assert place.answers["complete done"] > 0
    assert place.answers["heartbeat lost"] > 0
    assert place.answers["maintain reaped"] > 0
