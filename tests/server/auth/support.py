"""What the tests of authentication share: tokens, a clock, and a store that is scripted."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest

import wherry
from wherry.commands.base import Command
from wherry.commands.tokens import CreateToken, FindTokens, NoteTokenUse
from wherry.domain.token import Token, TokenFound, draw_token, read_token
from wherry.errors import Unauthenticated
from wherry.server.auth import Authenticator

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
