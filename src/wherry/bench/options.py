"""The options of a benchmark, each said in one line; a list's values are written with commas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import click

# What was given: an attribute for each option, named as it is, with underscores.
Given: TypeAlias = SimpleNamespace
Number: TypeAlias = int | float


def option(
    name: str,
    default: Number | Sequence[Number] | Sequence[str],
    text: str,
    *,
    among: Sequence[str] | None = None,
) -> click.Option:
    """Return an option of the kind that its default is; *among* are all that a list may hold."""
    if isinstance(default, Sequence):
        return click.Option(
            [name],
            type=_several(type(default[0]), among),
            metavar="LIST",
            default=default,
            help=f"{text} (default: {','.join(map(_shown, default))}).",
        )
    return click.Option(
        [name],
        type=click.IntRange(0) if isinstance(default, int) else click.FloatRange(0),
        metavar="N" if isinstance(default, int) else "NUMBER",
        default=default,
        help=f"{text} (default: {_shown(default)}).",
    )


def _several(
    kind: Callable[[str], Any], among: Sequence[str] | None
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
        return values

    return read


def _shown(value: Number | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
