"""For how long a caller is known: never past a revocation by five seconds, nor past the end."""

from __future__ import annotations

import asyncio

import pytest

import wherry
from tests.facts import await_for
from tests.server.auth.support import Store, Time, bearer, create, refused
from wherry.commands.tokens import RevokeToken
from wherry.domain.token import draw_token
from wherry.errors import Unauthenticated
from wherry.server import auth
from wherry.server.auth import REFUSAL, Authenticator


async def test_a_revoked_token_is_refused_within_five_seconds(
    real: Authenticator, app: wherry.App, time: Time
) -> None:
    token = await create(app)
    await real.caller_of(bearer(token), peer="")
    await app.acarry(RevokeToken(token.id))

    time.now += 4.9
    await real.caller_of(bearer(token), peer="")
    time.now += 0.1

    assert await refused(real, token) == REFUSAL


async def test_asking_all_the_time_keeps_no_revoked_token_alive(
    real: Authenticator, app: wherry.App, time: Time
) -> None:
    token = await create(app)
    await real.caller_of(bearer(token), peer="")
    await app.acarry(RevokeToken(token.id))

    for _ in range(4):
        time.now += 1.0
        await real.caller_of(bearer(token), peer="")
    time.now += 1.0

    assert await refused(real, token) == REFUSAL


async def test_who_was_held_for_long_is_asked_for_again(
    real: Authenticator, app: wherry.App, time: Time
) -> None:
    token = await create(app)
    caller = await real.caller_of(bearer(token), peer="")
    await real.confirm(caller)
    await app.acarry(RevokeToken(token.id))
    time.now += 5.0

    with pytest.raises(Unauthenticated, match="a token is needed"):
        await real.confirm(caller)


async def test_who_has_no_token_cannot_lose_it(store: Store) -> None:
    door = Authenticator(store, required=False)

    await door.confirm(await door.caller_of(None, peer=""))

    assert store.queries == []


async def test_a_kept_caller_ends_with_its_token(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token(), remaining_seconds=2.0)
    await door.caller_of(bearer(token), peer="")
    store.add(token, is_live=False)

    time.now += 1.9
    await door.caller_of(bearer(token), peer="")
    time.now += 0.1

    assert await refused(door, token) == REFUSAL


async def test_what_an_answer_says_counts_from_when_it_was_asked(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token())
    store.open.clear()
    asking = asyncio.create_task(door.caller_of(bearer(token), peer=""))
    await await_for(lambda: store.queries)
    time.now += 4.0
    store.open.set()
    await asking
    store.found.clear()

    time.now += 1.0

    assert await refused(door, token) == REFUSAL


async def test_who_is_renewed_and_found_dead_is_refused_at_once(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token())
    await door.caller_of(bearer(token), peer="")
    store.add(token, is_live=False)
    time.now += auth.RENEWED_SECONDS
    await door.caller_of(bearer(token), peer="")
    await await_for(lambda: len(store.queries) == 2 and door._sent is None)

    assert await refused(door, token) == REFUSAL


async def test_nobody_joins_a_query_that_is_too_old_to_be_believed(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token())
    store.open.clear()
    first = asyncio.create_task(door.caller_of(bearer(token), peer=""))
    await await_for(lambda: store.queries)
    # Revoked after that query has looked, and longer ago than anybody may be let in.
    store.found.clear()
    time.now += 5.0

    second = asyncio.create_task(door.caller_of(bearer(token), peer=""))
    await asyncio.sleep(0)
    store.open.set()

    assert (await first).token_id == token.id
    with pytest.raises(Unauthenticated):
        await second
