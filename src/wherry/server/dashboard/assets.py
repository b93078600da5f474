"""Styles, script and icons: read once, and served under names that change with what is in them.

The style sheet and the script are written in several files, one idea each; a browser gets the files
of a kind as one, in the order of their names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_MEDIA: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# For ever: whatever changes has another name.
FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as browsers get it; `name` holds the hash of its body."""

    name: str
    media: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return what there is, by its plain name such as `wherry.css`."""
    folder = files("wherry.server.dashboard") / "static"
    found = sorted((each for each in folder.iterdir()), key=lambda each: each.name)
    bodies = {
        f"wherry.{kind}": b"\n".join(
            each.read_bytes() for each in found if each.name.endswith(f".{kind}")
        )
        for kind in _MEDIA
    }
    return {name: _asset(name, body) for name, body in bodies.items()}


def asset_at(name: str) -> Asset | None:
    """Return the asset of that name with its hash, or None."""
    return next((each for each in assets().values() if each.name == name), None)


def _asset(name: str, body: bytes) -> Asset:
    stem, _, kind = name.partition(".")
    digest = hashlib.sha256(body).hexdigest()[:12]
    return Asset(f"{stem}.{digest}.{kind}", _MEDIA[kind], body)
