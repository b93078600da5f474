"""Reads the SQL files and renders them for a schema and a driver's way to write parameters.

Each file is read once. Only `:name` outside literals and comments is a parameter; `::` is a cast. A
line `-- part: name` stands for the text of sql/parts/name.sql; what follows the name stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

from wherry.domain.names import render_schema

Style: TypeAlias = Literal["dollar", "named"]

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|::|:(?P<name>[a-z_]+)|:")

_PART = re.compile(r"^ *-- part: (\w+)(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rendered:
    """SQL text for one driver, and the order of its parameters where they are numbered."""

    text: str
    names: tuple[str, ...]


@lru_cache(maxsize=1024)
def render(name: str, schema: str, style: Style) -> Rendered:
    """Return the statement of that name for *schema*, written as *style* wants parameters."""
    code = "\n".join(
        line for line in source(name).splitlines() if not line.lstrip().startswith("--")
    )
    names: list[str] = []

    def write(token: re.Match[str]) -> str:
        parameter = token["name"]
        if parameter is None:
            # SQLAlchemy looks for parameters everywhere, also inside quotes.
            return token[0].replace(":", "\\:") if style == "named" else token[0]
        if parameter not in names:
            names.append(parameter)
        return f":{parameter}" if style == "named" else f"${names.index(parameter) + 1}"

    return Rendered(_TOKEN.sub(write, render_schema(code, schema)), tuple(names))


def source(name: str) -> str:
    """Return the text of a statement with its parts in their places."""
    return _PART.sub(lambda line: _read(f"parts/{line[1]}").rstrip() + line[2], _read(name))


@lru_cache(maxsize=256)
def _read(name: str) -> str:
    return files("wherry").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
