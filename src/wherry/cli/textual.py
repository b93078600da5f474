"""Refuses what is no text on the command line, for every verb at once.

A process's arguments are bytes. Those that are no UTF-8 reach us as lone surrogates, which neither
PostgreSQL nor a server takes. A path is no text for us, and may be any bytes; but one that comes
after an @ is part of a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import click


def only_text(command: click.Command) -> None:
    """Make a command, and all that are below it, refuse values that are no text."""
    refuse_others(command.params)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            only_text(below)


def refuse_others(parameters: Iterable[click.Parameter]) -> None:
    """Make parameters refuse values that are no text."""
    for parameter in parameters:
        _check(parameter)


def _check(parameter: click.Parameter) -> None:
    then = parameter.callback

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for text in _texts_in(value):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise click.BadParameter(
                    f"{text!r} is no text: character {error.start + 1} is a lone surrogate, made"
                    " of a byte that is not UTF-8",
                    ctx,
                    param,
                ) from None
        return value if then is None else then(ctx, param, value)

    parameter.callback = check


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list):
        for each in cast("Sequence[Any]", value):
            yield from _texts_in(each)
