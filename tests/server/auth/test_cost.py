"""What authentication costs the database, whoever calls, and what is kept of it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.server.auth.support import Store, Time, bearer, create, other_secret, refused
from wherry.commands.tokens import ListTokens
from wherry.domain.token import draw_token
from wherry.errors import LimitReached, Unauthenticated, Unavailable
from wherry.server import auth
from wherry.server.auth import Authenticator


async def test_a_kept_caller_needs_no_query(door: Authenticator, store: Store, time: Time) -> None:
    token = store.add(draw_token())

    for _ in range(1000):
        time.now += 0.0039
        await door.caller_of(bearer(token), peer="")

    assert store.queries == [(token.id,)]


async def test_who_calls_all_the_time_never_waits_for_a_query(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = store.add(draw_token())
    await door.caller_of(bearer(token), peer="")
    store.open.clear()
    time.now += auth.RENEWED_SECONDS

    # Nothing answers now, and nobody notices.
    for _ in range(10):
        await door.caller_of(bearer(token), peer="")
    await await_for(lambda: len(store.queries) == 2)
    store.open.set()
    await await_for(lambda: door._sent is None)
    time.now += auth.RENEWED_SECONDS - 0.1
    await door.caller_of(bearer(token), peer="")

    assert store.queries == [(token.id,)] * 2


async def test_a_wrong_secret_for_a_known_id_needs_no_query_and_harms_nobody(
    door: Authenticator, store: Store
) -> None:
    token = store.add(draw_token())
    await refused(door, other_secret(token))

    for _ in range(100):
        await refused(door, other_secret(token))
    caller = await door.caller_of(bearer(token), peer="")

    assert caller.token_id == token.id
    assert len(store.queries) == 1


async def test_those_who_ask_at_once_share_one_query(door: Authenticator, store: Store) -> None:
    token = store.add(draw_token())
    store.open.clear()

    asking = [asyncio.create_task(door.caller_of(bearer(token), peer=str(n))) for n in range(100)]
    await await_for(lambda: store.queries)
    late = asyncio.create_task(door.caller_of(bearer(token), peer="late"))
    await asyncio.sleep(0)
    store.open.set()

    callers = await asyncio.gather(*asking, late)
    assert [caller.peer for caller in callers] == [*map(str, range(100)), "late"]
    assert store.queries == [(token.id,)]


async def test_who_goes_away_takes_nobody_elses_answer_along(
    door: Authenticator, store: Store
) -> None:
    token = store.add(draw_token())
    store.open.clear()
    leaving, staying = (
        asyncio.create_task(door.caller_of(bearer(token), peer="")) for _ in range(2)
    )
    await await_for(lambda: store.queries)

    leaving.cancel()
    await asyncio.wait([leaving])
    store.open.set()

    assert (await staying).token_id == token.id
    assert leaving.cancelled()


async def test_a_flood_of_made_up_tokens_costs_few_queries(
    door: Authenticator, store: Store
) -> None:
    flood = [draw_token() for _ in range(auth.MOST_ASKED)]

    answers = await asyncio.gather(
        *(door.caller_of(bearer(token), peer="") for token in flood for _ in range(5)),
        return_exceptions=True,
    )

    assert {type(answer) for answer in answers} == {Unauthenticated}
    assert len(store.queries) <= 3


async def test_the_same_made_up_token_is_looked_up_once(
    door: Authenticator, store: Store, time: Time
) -> None:
    token = draw_token()
    for _ in range(100):
        await refused(door, token)
    assert len(store.queries) == 1

    time.now += 5.0
    await refused(door, token)

    assert len(store.queries) == 2


async def test_one_who_comes_alone_with_one_made_up_token_after_the_other_is_slowed_down(
    door: Authenticator, store: Store
) -> None:
    loop = asyncio.get_running_loop()
    began_at = loop.time()

    for _ in range(10):
        await refused(door, draw_token())

    assert len(store.queries) == 10
    assert loop.time() - began_at >= 9 * auth.QUERY_EVERY_SECONDS * 0.9


async def test_too_many_look_ups_at_once_are_refused_and_known_callers_are_not(
    door: Authenticator, store: Store
) -> None:
    known = store.add(draw_token())
    await door.caller_of(bearer(known), peer="")
    store.open.clear()
    # One query is under way, and the next one is full.
    flood = [asyncio.create_task(door.caller_of(bearer(draw_token()), peer=""))]
    await await_for(lambda: len(store.queries) == 2)
    flood += [
        asyncio.create_task(door.caller_of(bearer(draw_token()), peer=""))
        for _ in range(auth.MOST_ASKED)
    ]
    await asyncio.sleep(0)

    with pytest.raises(LimitReached) as limit:
        await door.caller_of(bearer(draw_token()), peer="")
    caller = await door.caller_of(bearer(known), peer="")

    assert limit.value.retry_seconds == 1.0
    assert caller.token_id == known.id
    store.open.set()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_what_is_kept_is_bounded_and_a_flood_pushes_no_caller_out(
    door: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_KEPT", 3)
    monkeypatch.setattr(auth, "MOST_REFUSED", 5)
    tokens = [store.add(draw_token()) for _ in range(4)]
    await asyncio.gather(*(door.caller_of(bearer(token), peer="") for token in tokens))

    await asyncio.gather(*(refused(door, draw_token()) for _ in range(50)))
    queries = len(store.queries)
    for token in tokens[1:]:
        await door.caller_of(bearer(token), peer="")
    assert len(store.queries) == queries
    await door.caller_of(bearer(tokens[0]), peer="")

    assert len(store.queries) == queries + 1
    assert (len(door._known), len(door._refused)) == (3, 5)


async def test_a_use_is_noted_and_only_by_who_knows_the_secret(
    real: Authenticator, app: wherry.App, time: Time
) -> None:
    token = await create(app)
    await refused(real, other_secret(token))
    [before] = await app.acarry(ListTokens())

    await real.caller_of(bearer(token), peer="")

    assert before.last_used_at is None

    async def last_use() -> Any:
        [info] = await app.acarry(ListTokens())
        return info.last_used_at

    await await_for(last_use, what="the use is noted")


async def test_many_uses_are_one_note(door: Authenticator, store: Store) -> None:
    token = store.add(draw_token(), note_use=True)

    for _ in range(10):
        await door.caller_of(bearer(token), peer="")
    await await_for(lambda: door._looking is not None and door._looking.done())

    assert store.notes == [(token.id,)]


@pytest.mark.parametrize("error", [Unavailable("away"), psycopg.errors.InsufficientPrivilege("no")])
async def test_a_note_that_fails_keeps_nobody_out(
    door: Authenticator, store: Store, error: Exception, time: Time
) -> None:
    token = store.add(draw_token(), note_use=True)
    await door.caller_of(bearer(token), peer="")
    store.error = error
    await await_for(lambda: store.notes)
    store.error = None
    time.now += 5.0

    assert (await door.caller_of(bearer(token), peer="")).token_id == token.id
