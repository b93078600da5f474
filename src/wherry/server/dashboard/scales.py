"""Axes: where a value lies between 0 and 1, and which ticks a person would have chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from wherry.server.dashboard import words

Say: TypeAlias = Callable[[float], str]

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS: Final = 4
# Moments that everybody has a feeling for; each is as far from the next on the axis.
_LADDER: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0)
_LADDER_WORDS: Final = (
    "1 ms",
    "10 ms",
    "100 ms",
    "1 s",
    "10 s",
    "1 min",
    "10 min",
    "1 h",
    "6 h",
    "1 d",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis. `ticks` are evenly spaced, from the lowest to the highest; `at` places a value."""

    ticks: tuple[str, ...]
    at: Callable[[float], float]


def even(most: float, say: Say = words.short, *, whole: bool = False) -> Scale:
    """Return an axis from zero to a round number not below *most*; *whole*: of whole steps."""
    rough = max(most, 1e-9) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    count = max(1, math.ceil(most / step - 1e-9))
    if most <= 0:
        step, count = 1.0, 1
    top = step * count
    ticks = tuple(say(step * n) for n in range(count + 1))
    return Scale(ticks, lambda value: min(1.0, max(0.0, value / top)))


def ladder(least: float, most: float) -> Scale:
    """Return an axis for lengths of time from *least* to *most* seconds, on which both are seen."""
    low = max((n for n, rung in enumerate(_LADDER) if rung <= least), default=0)
    high = next((n for n, rung in enumerate(_LADDER) if rung >= most), len(_LADDER) - 1)
    if high - low < 2:
        low, high = max(0, min(low, len(_LADDER) - 3)), max(2, min(low, len(_LADDER) - 3) + 2)
    rungs = _LADDER[low : high + 1]

    def at(value: float) -> float:
        if value <= rungs[0]:
            return 0.0
        for n, (below, above) in enumerate(pairwise(rungs)):
            if value <= above:
                part = math.log(value / below) / math.log(above / below)
                return (n + part) / (len(rungs) - 1)
        return 1.0

    return Scale(_LADDER_WORDS[low : high + 1], at)
