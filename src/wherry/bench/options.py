"""The options of a benchmark, each said in one line; a list's values are written with commas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import click

# What was given: an attribute for each option, named as it is, with underscores.
Given: TypeAlias = SimpleNamespace
Number: TypeAlias = int | float

LEAST: dict[type, Number] = {int: 1, float: 0.1}


def option(
    name: str,
    default: Number | Sequence[Number] | Sequence[str],
    text: str,
    *,
    among: Sequence[str] | None = None,
    least: Number | None = None,
) -> click.Option:
    """Return an option of the kind that its default is.

    *among* are all that a list may hold. No number may be less than *least*: by default 1 of what
    is counted and a tenth of what is measured, since nothing can be told of nothing.
    """
    if isinstance(default, Sequence):
        kind = type(default[0])
        return click.Option(
            [name],
            type=_several(kind, among, LEAST.get(kind) if least is None else least),
            metavar="LIST",
            default=default,
            help=f"{text} (default: {','.join(map(_shown, default))}).",
        )
    least = LEAST[type(default)] if least is None else least
    return click.Option(
        [name],
        type=click.IntRange(int(least)) if isinstance(default, int) else click.FloatRange(least),
        metavar="N" if isinstance(default, int) else "NUMBER",
        default=default,
        help=f"{text} (default: {_shown(default)}).",
    )


def _several(
    kind: Callable[[str], Any], among: Sequence[str] | None, least: Number | None
) -> Callable[[str | Sequence[Any]], list[Any]]:
    def read(given: str | Sequence[Any]) -> list[Any]:
        """Read what was given; a default is not text, and is taken as it is."""
        if not isinstance(given, str):
            return list(given)
        try:
            values = [kind(part) for part in given.split(",")]
        except ValueError:
            raise click.BadParameter(f"{given!r} is no list such as 1,2,4") from None
        strange = [value for value in values if among is not None and value not in among]
        if strange:
            raise click.BadParameter(f"{strange[0]!r} is none of {', '.join(among or ())}")
        if least is not None and not all(value >= least for value in values):
            raise click.BadParameter(f"no number in it may be less than {least:g}")
        return values

    return read


def _shown(value: Number | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
