"""The short form of the fault-injection suite; the long one is `./run torture`."""

from __future__ import annotations

import pytest

from tests.nemesis.run import torture


@pytest.mark.timeout(240)
def test_every_promise_is_kept_while_everything_goes_wrong() -> None:
    verdict = torture(seconds=18.0, seed=1)

    assert verdict.is_clean, f"`./run torture --seconds 18 --seed 1` found:\n{verdict}"
