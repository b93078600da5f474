"""How many ids are drawn ahead."""

from __future__ import annotations

from wherry.app.ids import TaskIds


def test_busy_enqueuers_draw_more_and_more_up_to_a_thousand_ahead() -> None:
    ids = TaskIds()

    ahead = [ids.draw_for(1) - 1 for _ in range(10)]

    assert ahead == [8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]


def test_large_calls_draw_for_eight_of_them_but_no_more_than_20_000_ahead() -> None:
    ids = TaskIds()

    thousands = [ids.draw_for(1000) for _ in range(20)]
    millions = [ids.draw_for(1_000_000) for _ in range(20)]

    assert max(thousands) == 9000
    assert max(millions) == 1_020_000


def test_a_small_call_after_large_ones_does_not_draw_as_they_do() -> None:
    ids = TaskIds()
    for _ in range(20):
        ids.draw_for(100_000)

    assert ids.draw_for(1) == 1001
