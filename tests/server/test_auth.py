"""Who is let in, for how long, at what cost; and that a secret never shows anywhere."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wherry
from tests.facts import await_for
from wherry.commands.base import Command
from wherry.commands.tokens import CreateToken, FindTokens, ListTokens, NoteTokenUse, RevokeToken
from wherry.domain.token import Token, TokenFound, draw_token, read_token
from wherry.errors import LimitReached, Unauthenticated, Unavailable, WherryError
from wherry.server import auth
from wherry.server.auth import REFUSAL, Authenticator, Polls
from wherry.server.caller import ANYBODY, Caller, Right
from wherry.testing import Clock

R = TypeVar("R")


class Time:
    """A monotonic clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Store:
    """What an Authenticator asks, without a database: it counts, can be held up, and can fail."""

    def __init__(self) -> None:
        self.found: dict[str, TokenFound] = {}
        self.queries: list[tuple[str, ...]] = []
        self.notes: list[tuple[str, ...]] = []
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()

    def add(self, token: Token, **fields: Any) -> Token:
        given: dict[str, Any] = {
            "name": "shop",
            "hash": token.hash,
            "rights": ("work", "read"),
            "queues": ("mail.*",),
            "is_live": True,
            "remaining_seconds": None,
            "note_use": False,
            **fields,
        }
        self.found[token.id] = TokenFound(id=token.id, **given)
        return token

    async def acarry(self, command: Command[R], /, *, call: str = "call") -> R:
        answer: Any
        match command:
            case FindTokens(ids):
                self.queries.append(ids)
                answer = [self.found[id] for id in ids if id in self.found]
            case NoteTokenUse(ids):
                self.notes.append(ids)
                answer = len(ids)
            case _:
                raise AssertionError(command)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        result: R = answer
        return result


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def door(store: Store, time: Time) -> AsyncIterator[Authenticator]:
    """An Authenticator on a scripted store."""
    made = Authenticator(store, clock=time)
    yield made
    await made.aclose()


@pytest.fixture
async def real(app: wherry.App, time: Time) -> AsyncIterator[Authenticator]:
    """An Authenticator on a database."""
    made = Authenticator(app, clock=time)
    yield made
    await made.aclose()


def bearer(token: Token) -> str:
    return f"Bearer {token.reveal()}"


def other_secret(token: Token) -> Token:
    """A token with the same id, as somebody makes up who has seen a listing."""
    made = read_token(f"wherry_{token.id}_{draw_token().reveal().rpartition('_')[2]}")
    assert made is not None
    return made


async def refused(door: Authenticator, shown: str | Token | None) -> str:
    """Return the text of the refusal, which there must be."""
    text = bearer(shown) if isinstance(shown, Token) else shown
    with pytest.raises(Unauthenticated) as error:
        await door.caller_of(text, peer="10.0.0.1")
    return str(error.value)


async def create(app: wherry.App, **fields: Any) -> Token:
    token = draw_token()
    given: dict[str, Any] = {"rights": ("work",), "queues": ("*",), "created_by": "me", **fields}
    assert await app.acarry(CreateToken(id=token.id, name=token.id, hash=token.hash, **given))
    return token


async def test_who_shows_a_token_is_its_caller(real: Authenticator, app: wherry.App) -> None:
    token = await create(app, rights=("enqueue", "read"), queues=("mail.*", "b"))

    caller = await real.caller_of(bearer(token), peer="10.0.0.1")

    assert caller == Caller(
        token.id,
        frozenset({Right.ENQUEUE, Right.READ}),
        ("mail.*", "b"),
        token_id=token.id,
        peer="10.0.0.1",
    )


async def test_without_authentication_everybody_is_let_in_and_nobody_is_asked(
    store: Store,
) -> None:
    door = Authenticator(store, required=False)

    callers = [
        await door.caller_of(text, peer="10.0.0.1") for text in (None, "Bearer x", "Basic eA==")
    ]

    assert {(caller.name, caller.rights, caller.peer) for caller in callers} == {
        (ANYBODY.name, ANYBODY.rights, "10.0.0.1")
    }
    assert store.queries == []


GOOD = "wherry_abcdefghijkl_" + "a" * 52


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        GOOD,
        f"Basic {GOOD}",
        f"Bearer  {GOOD}",
        f"Bearer {GOOD} ",
        f"Bearer {GOOD}\n",
        f"Bearer {GOOD}a",
        f"Bearer {GOOD[:-1]}",
        f"Bearer {GOOD[:-1]}=",
        f"Bearer {GOOD[:-1]}1",
        f"Bearer {GOOD[:-1]}\u0430",
        f"Bearer {GOOD.upper()}",
        f"Bearer x{GOOD}",
        f"Bearer {GOOD},{GOOD}",
        f"Bearer {GOOD}, Bearer {GOOD}",
        f"Bearer wherry_abcdefghijk_{'a' * 52}",
        f"Bearer wherry_abcdefghijk'_{'a' * 52}",
        f"Bearer wherry__{'a' * 52}",
        "Bearer wherry_abcdefghijkl_",
        "Bearer " + "a" * 1_000_000,
        "\ud800",
        "Bearer \x00",
    ],
)
async def test_what_is_no_token_costs_no_query(
    door: Authenticator, store: Store, text: str | None
) -> None:
    assert await refused(door, text) == REFUSAL

    assert store.queries == []


@given(text=st.text())
def test_only_the_one_form_of_a_token_is_one(text: str) -> None:
    token = read_token(text)

    assert token is None or token.reveal() == text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_name_of_the_scheme_has_no_case(
    door: Authenticator, store: Store, scheme: str
) -> None:
    token = store.add(draw_token())

    assert (await door.caller_of(f"{scheme} {token.reveal()}", peer="")).token_id == token.id


async def test_a_refusal_never_says_what_is_wrong(
    real: Authenticator, app: wherry.App, clock: Clock
) -> None:
    revoked, expired, live = [
        await create(app, lasts_seconds=seconds) for seconds in (None, 60.0, None)
    ]
    await app.acarry(RevokeToken(revoked.id))
    clock.advance(minutes=2)

    texts = {
        await refused(real, shown)
        for shown in (revoked, expired, other_secret(live), draw_token(), "nonsense", None)
    }

    assert texts == {REFUSAL}


async def test_every_refusal_compares_hashes_once(
    door: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    live = store.add(draw_token())
    over = store.add(draw_token(), is_live=False)

    for shown in (draw_token(), over, other_secret(live)):
        await refused(door, shown)

    assert [(len(a), len(b)) for a, b in compared] == [(32, 32)] * 3


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


async def test_a_secret_is_in_no_log_no_error_and_no_repr(
    real: Authenticator, app: wherry.App, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [await create(app), await create(app), draw_token()]
    wrong = other_secret(tokens[0])
    await real.caller_of(bearer(tokens[0]), peer="")
    await app.acarry(RevokeToken(tokens[1].id))
    shown: list[Token | str] = [*tokens[1:], wrong, "Bearer x-secret-x"]
    texts = [await refused(real, each) for each in shown]

    seen = caplog.text + repr(
        [texts, real, vars(real), tokens, wrong, await app.acarry(FindTokens((tokens[0].id,)))]
    )

    assert "wrong secret" in caplog.text
    for token in (*tokens, wrong):
        assert token.reveal().rpartition("_")[2] not in seen
    assert "x-secret-x" not in seen


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


def test_drawn_tokens_are_all_different_and_read_as_they_were_drawn() -> None:
    drawn = [draw_token() for _ in range(100)]

    assert len({token.id for token in drawn}) == 100
    assert len({token.hash for token in drawn}) == 100
    assert [read_token(token.reveal()) for token in drawn] == drawn
