"""How long a loop waits before it tries again."""

from __future__ import annotations

from wherry.transport.patience import Patience


def test_pauses_grow_while_nothing_gets_through() -> None:
    """LN-04."""
    patience = Patience(first=0.05, longest=5.0)

    pauses = [patience.next_pause(after=0.01) for _ in range(20)]

    assert pauses[0] <= 0.05
    assert all(pause >= 2.5 for pause in pauses[10:])
    assert max(pauses) <= 5.0


def test_a_poll_that_is_cut_after_it_had_waited_is_asked_for_again_at_once() -> None:
    """API-01: an idle limit on the way may be shorter than a poll, and cuts each of them."""
    patience = Patience(first=0.05, longest=5.0)

    pauses = [patience.next_pause(after=10.0) for _ in range(20)]

    assert max(pauses) <= 0.05
