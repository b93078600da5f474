"""What tests of programs that use Wherry need: real databases in milliseconds, time that obeys.

The names below are imported on first use: pytest imports this package at every start of whoever
has Wherry installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherry.testing.clock import Clock
    from wherry.testing.direct import RecordedContext, context
    from wherry.testing.drain import Manual, Ran, manual
    from wherry.testing.eager import Inline, inline
    from wherry.testing.expect import aexpect_enqueued, expect_enqueued
    from wherry.testing.postgres import TemplateServer

_HOMES = {
    "clock": ("Clock",),
    "direct": ("RecordedContext", "context"),
    "expect": ("aexpect_enqueued", "expect_enqueued"),
    "eager": ("Inline", "inline"),
    "drain": ("Manual", "Ran", "manual"),
    "postgres": ("TemplateServer",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Clock",
    "Inline",
    "Manual",
    "Ran",
    "RecordedContext",
    "TemplateServer",
    "aexpect_enqueued",
    "context",
    "expect_enqueued",
    "inline",
    "manual",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'wherry.testing' has no attribute {name!r}")
    value = getattr(import_module(f"wherry.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
