"""The torture's own clients wait for nothing without an end."""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import Any

import pytest

from tests.nemesis import by_hand
from wherry import Lease


def test_a_rush_that_is_never_answered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "ANSWER_SECONDS", 0.1)
    answered = threading.Event()

    class Unanswered(by_hand.Hand):
        def lease(self, **_asked: Any) -> list[Lease]:
            answered.wait(60)
            return []

    try:
        with pytest.raises(TimeoutError, match=r"not answered within 0\.1 s"):
            Unanswered(random.Random(1), deque()).rush()
    finally:
        answered.set()


def test_what_ends_a_thread_of_a_rush_is_told() -> None:
    class Broken(by_hand.Hand):
        def lease(self, **_asked: Any) -> list[Lease]:
            raise threading.BrokenBarrierError("as ordered")

    with pytest.raises(threading.BrokenBarrierError, match="as ordered"):
        Broken(random.Random(1), deque()).rush()
