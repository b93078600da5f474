"""How many long polls a caller may hold open."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.errors import LimitReached, WherryError
from wherry.server.auth import Polls
from wherry.server.caller import Caller, Right


def open_polls(polls: Polls, caller: Caller, n: int) -> list[Any]:
    held = [polls.taken(caller) for _ in range(n)]
    for each in held:
        each.__enter__()
    return held


def test_a_caller_holds_only_so_many_polls_open() -> None:
    polls = Polls(most=2)
    shop, other = (Caller(name, frozenset(Right), ("*",), token_id=name) for name in "ab")
    held = open_polls(polls, shop, 2)

    with pytest.raises(LimitReached) as limit, polls.taken(shop):
        pass
    with polls.taken(other):
        pass
    held[0].__exit__(None, None, None)
    with polls.taken(shop):
        pass

    assert limit.value.retry_seconds == 1.0


def test_a_poll_that_ends_badly_is_given_back() -> None:
    polls = Polls(most=1)
    caller = Caller("a", frozenset(Right), ("*",), token_id="a")

    for _ in range(3):
        with pytest.raises(WherryError), polls.taken(caller):
            raise WherryError("lost")

    assert polls.open == 0


def test_without_tokens_polls_are_counted_by_host() -> None:
    polls = Polls(most=1)
    here, there = (Caller("anonymous", frozenset(Right), ("*",), peer=peer) for peer in "ab")

    with polls.taken(here), polls.taken(there), pytest.raises(LimitReached), polls.taken(here):
        pass
