"""How a pool of connections is used."""

from __future__ import annotations

from typing import NamedTuple


class PoolUse(NamedTuple):
    """Connections that are open, those of them that are free, the most, and calls that wait."""

    most: int
    open: int
    free: int
    waiting: int
