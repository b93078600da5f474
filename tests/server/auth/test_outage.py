"""Authentication while the database is away or slow, or the server stops."""

from __future__ import annotations

import asyncio

import pytest

from tests.facts import await_for
from tests.server.auth.support import Store, Time, bearer
from wherry.domain.token import draw_token
from wherry.errors import Unavailable
from wherry.server import auth
from wherry.server.auth import Authenticator


async def test_while_the_database_is_away_known_callers_go_on_for_five_seconds(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token())
    await door.caller_of(bearer(token), peer="")
    store.error = Unavailable("away")

    time.now += 4.9
    await door.caller_of(bearer(token), peer="")
    time.now += 0.1
    with pytest.raises(Unavailable):
        await door.caller_of(bearer(token), peer="")
    store.error = None

    assert (await door.caller_of(bearer(token), peer="")).token_id == token.id


async def test_a_database_that_is_away_makes_nobody_unknown(
    door: Authenticator, store: Store
) -> None:
    token = store.add(draw_token())
    store.error = Unavailable("away")
    asking = [door.caller_of(bearer(token), peer="") for _ in range(3)]

    answers = await asyncio.gather(*asking, return_exceptions=True)
    store.error = None

    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert (await door.caller_of(bearer(token), peer="")).token_id == token.id


async def test_a_database_that_does_not_answer_is_not_waited_for_for_ever(
    door: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "PATIENCE_SECONDS", 0.05)
    token = store.add(draw_token())
    store.open.clear()

    with pytest.raises(Unavailable, match="in time"):
        await door.caller_of(bearer(token), peer="")

    # What comes late is of use to who comes later.
    store.open.set()
    assert (await door.caller_of(bearer(token), peer="")).token_id == token.id
    assert len(store.queries) == 1


async def test_a_mistake_of_ours_is_told_to_who_waits_and_stops_nothing(
    door: Authenticator, store: Store
) -> None:
    token = store.add(draw_token())
    store.error = KeyError("a bug")
    with pytest.raises(KeyError):
        await door.caller_of(bearer(token), peer="")

    store.error = None

    assert (await door.caller_of(bearer(token), peer="")).token_id == token.id


async def test_a_server_that_stops_leaves_nobody_waiting(store: Store, time: Time) -> None:
    door = Authenticator(store, clock=time)
    store.open.clear()
    asked = asyncio.create_task(door.caller_of(bearer(draw_token()), peer=""))
    await await_for(lambda: store.queries)
    asked_later = asyncio.create_task(door.caller_of(bearer(draw_token()), peer=""))
    await asyncio.sleep(0)

    await door.aclose()

    for waiting in (asked, asked_later):
        with pytest.raises(Unavailable, match="stopping"):
            await waiting
