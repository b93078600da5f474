"""What tests of programs that use Wherry need: real databases in milliseconds, time that obeys.

The names below are imported on first use: pytest imports this package at every start of whoever
has Wherry installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherry.testing.clock import Clock
    from wherry.testing.postgres import TemplateServer

_HOME_OF = {
    "Clock": "wherry.testing.clock",
    "TemplateServer": "wherry.testing.postgres",
}

__all__ = [
    "Clock",
    "TemplateServer",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'wherry.testing' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
