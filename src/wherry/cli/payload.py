"""A payload as the command line is given it: as it is, from stdin, or from a file."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, cast

import click

from wherry.domain.stored import json_name_of, read_strictly
from wherry.errors import InvalidPayload

# Far beyond any payload: only so that an endless pipe is not read for ever.
_MOST_READ_BYTES = 64 * 1024 * 1024


def read_payload(argument: str, *, hint: str) -> dict[str, Any]:
    """Return the payload that the argument is, or names. Raises InvalidPayload.

    It is JSON, - to read it from stdin, or @FILE; *hint* is what the command line calls it. What
    would be read differently elsewhere, such as a key that stands twice, is refused as it is by a
    server.
    """
    of = hint.lower()
    if argument == "-":
        text = _text(sys.stdin.buffer.read(_MOST_READ_BYTES + 1), of=of)
    elif argument.startswith("@"):
        try:
            with Path(argument[1:]).open("rb") as file:
                text = _text(file.read(_MOST_READ_BYTES + 1), of=of)
        except OSError as error:
            reason = f"{argument[1:]!r} cannot be read: {error.strerror}"
            raise click.BadParameter(reason, param_hint=hint) from None
    else:
        text = argument
    try:
        value = read_strictly(text)
    except ValueError as error:
        raise InvalidPayload(of, str(error)) from None
    if not isinstance(value, dict):
        raise InvalidPayload(of, f"is no JSON object but {json_name_of(value)}")
    return cast("dict[str, Any]", value)


def _text(data: bytes, *, of: str) -> str:
    if len(data) > _MOST_READ_BYTES:
        raise InvalidPayload(of, f"is longer than {_MOST_READ_BYTES:,} bytes")
    if data.startswith(BOM_UTF8):
        raise InvalidPayload(of, "begins with a byte order mark: remove it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8: byte {data[error.start]:#04x} at position {error.start:,}"
        raise InvalidPayload(of, reason) from None
