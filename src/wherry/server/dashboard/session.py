"""Who looks: the cookie that holds a token, and the word that a form must bring along.

A visitor shows their token once, in the form of the login page, and from then on their browser
shows it, in a cookie that no script can read and that no other site can have sent. The token itself
is kept there, so that whoever revokes it ends every session with it, on every server.

The word of the forms is derived from that cookie: who cannot read the page cannot know it. Where
nobody is asked for a token, a cookie drawn at random takes its place.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.datastructures import Headers

TOKEN_COOKIE: Final = "wherry_token"
FORM_COOKIE: Final = "wherry_form"
THEME_COOKIE: Final = "wherry_theme"
SAID_COOKIE: Final = "wherry_said"
FORM_FIELD: Final = "form_word"
THEMES: Final = ("auto", "light", "dark")
# A long shift.
TOKEN_SECONDS: Final = 12 * 3600
THEME_SECONDS: Final = 365 * 24 * 3600
_LONGEST_COOKIE: Final = 4096


def cookies_of(headers: Headers) -> dict[str, str]:
    """Return the cookies of a request; of one name the first, which has the longest path."""
    found: dict[str, str] = {}
    for header in headers.getlist("cookie"):
        for pair in header[:_LONGEST_COOKIE].split(";"):
            name, sign, value = pair.strip().partition("=")
            if sign:
                found.setdefault(name, value)
    return found


def form_word(cookies: Mapping[str, str]) -> str | None:
    """Return what the forms of this visitor bring along; None: they have no cookie yet."""
    key = cookies.get(TOKEN_COOKIE) or cookies.get(FORM_COOKIE)
    if not key:
        return None
    return hmac.new(key.encode(), b"a form of the dashboard", hashlib.sha256).hexdigest()[:43]


def knows_the_word(cookies: Mapping[str, str], given: str) -> bool:
    """Say whether a form was made for this visitor."""
    word = form_word(cookies)
    return word is not None and hmac.compare_digest(word.encode(), given.encode())


def seal(word: str, said: Iterable[tuple[str, str]]) -> str:
    """Return what shows that an address was made for the visitor whose forms have this word."""
    text = json.dumps(sorted(said)).encode()
    return hmac.new(word.encode(), text, hashlib.sha256).hexdigest()[:43]


def new_form_key() -> str:
    """Return the value of a form cookie for somebody who has no token."""
    return secrets.token_urlsafe(32)


def set_cookie(name: str, value: str, *, is_secure: bool, seconds: int | None = None) -> str:
    """Return the header that sets a cookie for the dashboard, and for nothing else.

    Without a path a browser takes the folder of the address that it asked for, which is right
    behind any prefix.
    """
    parts = [f"{name}={value}", "HttpOnly", "SameSite=Strict"]
    if seconds is not None:
        parts.append(f"Max-Age={seconds}")
    if is_secure:
        parts.append("Secure")
    return "; ".join(parts)


def drop_cookie(name: str, *, is_secure: bool) -> str:
    """Return the header that takes a cookie back."""
    return set_cookie(name, "", is_secure=is_secure, seconds=0)
