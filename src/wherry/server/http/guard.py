"""Keeps other web sites away from a server that asks nobody who they are.

A page on the internet can have the browser of a developer send requests to 127.0.0.1, and, by a
name that it lets point there (DNS rebinding), read the answers too. Such requests carry that name
as Host, or say by Origin or Sec-Fetch-Site where they come from. Where tokens are needed, a foreign
page has none to send, and this is not needed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers

from wherry.server.http.refusals import Refused

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_origin(method: str, headers: Headers, *, hosts: Sequence[str] = ()) -> None:
    """Refuse what another web site may have had a browser send.

    *hosts* are the names, beside the loopback ones, by which this server is known.
    """
    host = headers.get("host", "")
    name = _name_of(host)
    if not (_is_loopback(name) or name in hosts):
        raise Refused(
            403,
            "FOREIGN_HOST",
            f"the Host {host[:100]!r} is none of this server's: without tokens it answers only to"
            " localhost, loopback addresses, and what was named with --http-host",
        )
    if method in _READING:
        return
    site = headers.get("sec-fetch-site", "none").lower()
    origin = headers.get("origin")
    own = origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
    if not own or site not in ("none", "same-origin"):
        raise Refused(403, "FOREIGN_ORIGIN", "another web site may not send this here")


def _name_of(host: str) -> str:
    """Return a Host header's name without its port, or nothing for what is no host."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        port = port.removeprefix(":")
        return name if bracket and (not port or port.isdecimal()) else ""
    name, _, port = host.partition(":")
    return name.lower().removesuffix(".") if not port or port.isdecimal() else ""


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback
