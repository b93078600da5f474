"""Tokens: what a caller of a server shows, and what the database knows of it.

A token is the text `wherry_<id>_<secret>`. The id names its row and is no secret; of the secret
only the hash is stored, so the text is shown once and never again. The secret has 256 random bits:
nobody guesses it, so that a plain hash, which costs a server nothing, is as good as a slow one.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, cast

from wherry.domain.options import LONGEST_NAME_BYTES, check_name, check_text
from wherry.errors import InvalidOption

PREFIX: Final = "wherry"
# Who else acts, as the audit says: nobody may pass for them by the name of a token.
ANONYMOUS: Final = "anonymous"
BY_HAND: Final = "cli:"
MOST_GLOBS: Final = 100
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ID_LETTERS: Final = 12
_SECRET_BYTES: Final = 32
# Letters and digits without a sign between them: a double click selects the whole of it.
_TEXT = re.compile(rf"{PREFIX}_([a-z2-7]{{{_ID_LETTERS}}})_([a-z2-7]{{52}})", re.ASCII)


class Right(StrEnum):
    """What a token may allow."""

    ENQUEUE = "enqueue"
    WORK = "work"
    READ = "read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its holder has it. The secret is in no repr; only `reveal` gives it away."""

    id: str
    _secret: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """What is stored of the secret."""
        return hashlib.sha256(self._secret.encode()).digest()

    def reveal(self) -> str:
        """Return the text itself."""
        return f"{PREFIX}_{self.id}_{self._secret}"


def draw_token() -> Token:
    """Return a token that nobody has seen yet."""
    id = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LETTERS))
    secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=").lower()
    return Token(id, secret)


def read_token(text: str) -> Token | None:
    """Return the token that *text* is, letter by letter; None if it can be none."""
    found = _TEXT.fullmatch(text)
    return None if found is None else Token(found[1], found[2])


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What may be told of a token. `state` is live, expired or revoked."""

    id: str
    name: str
    state: str
    rights: tuple[str, ...]
    queues: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    # To the minute: it is noted once a minute at most, and may be missed.
    last_used_at: datetime | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> TokenInfo:
        """Return the token that a row tells of, in the order of the fields."""
        id, name, state, rights, queues, *rest = row
        return cls(id, name, state, tuple(rights), tuple(queues), *rest)


@dataclass(frozen=True, slots=True)
class TokenFound:
    """What a server needs to judge a token. Not live: it was revoked, or its time is over."""

    id: str
    name: str
    hash: bytes = field(repr=False)
    rights: tuple[str, ...]
    queues: tuple[str, ...]
    is_live: bool
    # How long it is good for from now; None if nothing ends it.
    remaining_seconds: float | None
    # Whether its last use was noted longer than a minute ago.
    note_use: bool


def check_token_name(name: object) -> str:
    """Return *name* if a token may be called so. Raises InvalidOption."""
    checked = check_name(name, option="name")
    if looks_like_a_token(checked):
        raise InvalidOption("name", f"{PREFIX}_…", "looks like a token: choose another name")
    if checked.lower() == ANONYMOUS or checked.lower().startswith(BY_HAND):
        raise InvalidOption("name", checked, "is somebody else's in the audit: choose another name")
    return checked


def looks_like_a_token(text: str) -> bool:
    """Whether *text* may be a token, or what is left of one: then it must not be shown."""
    return text.strip().lower().startswith(f"{PREFIX}_")


def check_rights(rights: object) -> tuple[str, ...]:
    """Return the rights, each once and in the order of `Right`. Raises InvalidOption."""
    given = _strings(rights, option="rights")
    known = tuple(str(right) for right in Right)
    for right in given:
        if right not in known:
            raise InvalidOption("rights", right, f"no such right; there are {', '.join(known)}")
    return tuple(right for right in known if right in given)


def check_globs(globs: object) -> tuple[str, ...]:
    """Return the globs of queues, each once. Raises InvalidOption."""
    given = tuple(dict.fromkeys(_strings(globs, option="queues")))
    if len(given) > MOST_GLOBS:
        raise InvalidOption("queues", len(given), f"must be at most {MOST_GLOBS} globs")
    checked: dict[str, None] = {}
    for glob in given:
        check_text(glob, option="queues", limit_bytes=LONGEST_NAME_BYTES)
        # What means all queues is written in one way, which is the one that is looked for.
        checked["*" if set(glob) == {"*"} else check_name(glob, option="queues")] = None
    return tuple(checked)


def _strings(values: object, *, option: str) -> tuple[str, ...]:
    given: Sequence[object] = ()
    if isinstance(values, list | tuple):
        given = cast("Sequence[object]", values)
    if not given:
        raise InvalidOption(option, given, "must be a list of one string or more")
    texts: list[str] = []
    for value in given:
        if not isinstance(value, str):
            raise InvalidOption(option, value, "must be a string")
        texts.append(str(value))
    return tuple(texts)
