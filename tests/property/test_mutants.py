"""The state machine finds known bugs, each put into a statement for the length of a test.

The suite tries those that are found within seconds; `--property-examples N` tries all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import Phase, settings

from tests.mutants import Mutant
from tests.property.mutants import FOUND
from tests.property.play import Place
from tests.property.test_calls import PLAIN, play
from wherry.transport import base, render

# Found is enough: nobody reads a short example of a bug that was put in.
QUICK = settings(PLAIN, max_examples=200, derandomize=True, phases=[Phase.generate])
# Those that queues are known for, of each kind of call one or two.
SOON = {
    "complete_after_expiry",
    "heartbeat_revives",
    "heartbeat_shortens",
    "release_counts",
    "lease_keeps_token",
    "lease_gives_one_more",
    "give_back_fenced_by_attempts",
    "snooze_for_ever",
    "reap_without_limit",
    "reap_ignores_cancel",
    "lost_lease_without_delay",
    "retry_without_delay",
    "promote_late",
    "cancel_ends_leased",
    "key_freed_too_early",
    "requeue_keeps_attempts",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bug" in metafunc.fixturenames:
        is_hunt = metafunc.config.getoption("--property-examples") is not None
        tried = [mutant for mutant in FOUND if is_hunt or mutant.name in SOON]
        metafunc.parametrize("bug", tried, indirect=True, ids=lambda mutant: mutant.name)


@pytest.fixture
def bug(request: pytest.FixtureRequest) -> Iterator[None]:
    """It is in its statement until the test is over."""
    mutant: Mutant = request.param
    with mutant.put_in():
        yield


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("bug")
def test_a_known_bug_is_found(place: Place) -> None:
    with pytest.raises(AssertionError):
        play(place, QUICK)

    print(f"found in example {place.examples}")


@pytest.mark.parametrize("mutant", FOUND, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_its_statement(mutant: Mutant) -> None:
    text = render.source(mutant.statement)

    assert mutant.mutate(text) != text


@pytest.mark.parametrize("texts", [base._rendered, base._typed], ids=["rendered", "typed"])
def test_a_mutant_is_what_is_sent_and_is_gone_afterwards(
    texts: Callable[[str, str], tuple[bytes, tuple[str, ...]]],
) -> None:
    mutant = FOUND[0]
    before = texts(mutant.statement, "wherry")

    with mutant.put_in():
        assert texts(mutant.statement, "wherry") != before

    assert texts(mutant.statement, "wherry") == before


def test_those_that_are_found_soon_are_among_them() -> None:
    assert {mutant.name for mutant in FOUND} >= SOON
