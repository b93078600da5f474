"""Who is let in, and that a refusal tells nothing, to nobody."""

from __future__ import annotations

import hmac
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wherry
from tests.server.auth.support import Store, Time, bearer, create, other_secret, refused
from wherry.commands.tokens import FindTokens, RevokeToken
from wherry.domain.token import Token, draw_token, read_token
from wherry.server.auth import REFUSAL, Authenticator
from wherry.server.caller import ANYBODY, Caller, Right
from wherry.testing import Clock


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


def test_drawn_tokens_are_all_different_and_read_as_they_were_drawn() -> None:
    drawn = [draw_token() for _ in range(100)]

    assert len({token.id for token in drawn}) == 100
    assert len({token.hash for token in drawn}) == 100
    assert [read_token(token.reveal()) for token in drawn] == drawn
