"""Tokens of those who call a server: make them, list them, revoke them, find them.

No command here has a secret in it, only its hash. What ends a token is judged by the database's
clock, in the statement that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.token import TokenFound, TokenInfo

MOST_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(Command[TokenInfo | None]):
    """Store a token. Answers what is told of it, or None if another one has its name.

    A name is free again once its token was revoked; one that has only expired keeps it.
    """

    id: str
    name: str
    hash: bytes = field(repr=False)
    rights: tuple[str, ...]
    queues: tuple[str, ...]
    created_by: str
    lasts_seconds: float | None = None

    def answer(self) -> Answer[TokenInfo | None]:
        yield Statement(
            "tokens/create_token",
            {
                "id": self.id,
                "name": self.name,
                "hash": self.hash,
                "rights": list(self.rights),
                "queues": list(self.queues),
                "created_by": self.created_by,
                "lasts_seconds": self.lasts_seconds,
            },
        )
        # By its id, which is random: it is there also if this was sent a second time.
        rows = yield Statement("tokens/get_token", {"named": self.id})
        info = TokenInfo.of_row(rows[0]) if rows else None
        return info if info is not None and info.id == self.id else None


@dataclass(frozen=True, slots=True)
class ListTokens(Command[list[TokenInfo]]):
    """List tokens, newest first, at most `limit`; those that are over only if `everything`."""

    everything: bool = False
    limit: int = MOST_LISTED

    def answer(self) -> Answer[list[TokenInfo]]:
        rows = yield Statement(
            "tokens/list_tokens", {"everything": self.everything, "limit_tokens": self.limit}
        )
        return [TokenInfo.of_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A token that is revoked: `now`, or was before."""

    token: TokenInfo
    now: bool


@dataclass(frozen=True, slots=True)
class RevokeToken(Command[Revoked | None]):
    """Revoke the token with this id, or else this name. None if there never was one.

    Servers that have just seen the token let it in for five seconds more at most.
    """

    named: str

    def answer(self) -> Answer[Revoked | None]:
        revoked = yield Statement("tokens/revoke_token", {"named": self.named})
        named = revoked[0][0] if revoked else self.named
        rows = yield Statement("tokens/get_token", {"named": named})
        return Revoked(TokenInfo.of_row(rows[0]), bool(revoked)) if rows else None


@dataclass(frozen=True, slots=True)
class FindTokens(Command[list[TokenFound]]):
    """Read what a server needs to judge these tokens; unknown ids are not in the answer."""

    ids: tuple[str, ...]

    def answer(self) -> Answer[list[TokenFound]]:
        rows = yield Statement("tokens/find_tokens", {"ids": list(self.ids)})
        return [
            TokenFound(id, name, bytes(hash), tuple(rights), tuple(queues), *rest)
            for id, name, hash, rights, queues, *rest in rows
        ]


@dataclass(frozen=True, slots=True)
class NoteTokenUse(Command[int]):
    """Note that these tokens were used; answers how many had no note from the last minute."""

    ids: tuple[str, ...]

    def answer(self) -> Answer[int]:
        rows = yield Statement("tokens/note_token_use", {"ids": list(self.ids)})
        return len(rows)
