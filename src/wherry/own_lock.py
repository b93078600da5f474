"""A lock of this process, which a forked child finds open.

A fork copies the locks that other threads hold, but not those threads: whoever asks for one of them
in a child waits for ever. So each child gets locks of its own, before any of its code runs; what
was amid a change under the old one is for its owner to do without.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

_Lock: TypeAlias = AbstractContextManager[Any]


class OwnLock:
    """Use it as `with own.lock:`; never keep the lock itself, which is another one in a child."""

    def __init__(self, make: Callable[[], _Lock] = threading.Lock) -> None:
        self._make = make
        self.lock = make()
        _all.add(self)

    def renew(self) -> None:
        """Begin with one that nobody holds."""
        self.lock = self._make()


_all: Final[weakref.WeakSet[OwnLock]] = weakref.WeakSet()


def _after_in_child() -> None:
    for own in list(_all):
        own.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
