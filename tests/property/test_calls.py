"""Whatever is called in whatever order, an App answers as the model does, and nothing vanishes.

`--property-examples 20000` makes it a hunt, with other examples at each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import wherry
from tests.property.machine import Calls, Place
from tests.property.model import MAX_RELEASES, MAX_SNOOZES

IN_THE_SUITE = 60
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


@pytest.fixture
def place(
    dsn: str, connect: Callable[..., psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A database, its clock in our hands, and limits that an example reaches."""
    monkeypatch.setattr("wherry.config.MAX_SNOOZES", MAX_SNOOZES)
    monkeypatch.setattr("wherry.config.MAX_RELEASES", MAX_RELEASES)
    with wherry.App(dsn) as app:
        yield Place(app, connect(), connect())


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int | None:
    """How many were asked for; None in the suite."""
    found: Any = request.config.getoption("--property-examples")
    return found if found is None else int(found)


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
