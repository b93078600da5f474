"""What goes back to a browser: status, headers, body; and who may have sent a form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Send

from wherry.server.http.refusals import Refused

# No inline script and no inline style, nothing from elsewhere, and no page may frame this one. The
# script may turn text into elements in one place only, which has the policy `wherry`.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types wherry"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    # With `no-referrer` a browser sends the forms of our own pages as if from nowhere.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}
HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int
    body: bytes = b""
    media: str | None = HTML
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cookies: Sequence[str] = ()


def redirect(to: str, *, status: int = 303, cookies: Sequence[str] = ()) -> Reply:
    """Return the answer that sends a browser to another address, relative to where it is."""
    return Reply(status, media=None, headers={"location": to}, cookies=cookies)


async def send_reply(reply: Reply, send: Send, *, without_body: bool = False) -> None:
    """Send an answer; *without_body*, as to HEAD."""
    said = {**_HEADERS, **reply.headers, "content-length": str(len(reply.body))}
    if reply.media is not None:
        said["content-type"] = reply.media
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in said.items()]
    encoded += [(b"set-cookie", cookie.encode("latin-1")) for cookie in reply.cookies]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if without_body else reply.body})


def check_sender(headers: Headers) -> None:
    """Refuse a form that another web site may have had a browser send.

    The token of the form is checked besides; where a browser says who sent it, that is enough to
    refuse.
    """
    site = headers.get("sec-fetch-site", "same-origin").lower()
    origin = headers.get("origin")
    # A proxy may pass another Host on; no page can have a browser send the header it does so with.
    hosts = {
        value.strip().lower()
        for name in ("host", "x-forwarded-host")
        for value in headers.get(name, "").split(",")
        if value.strip()
    }
    own = {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}
    if site not in ("same-origin", "none") or (origin is not None and origin.lower() not in own):
        raise Refused(403, "FOREIGN_ORIGIN", "another web site may not send this here")
