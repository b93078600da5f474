"""Every SQL file means the same in each driver's way to write parameters.

The database decides: a statement is sent through each driver, and must come back as it was meant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

import wherry
from tests.drivers.kinds import Kind
from wherry.commands.base import Answer, Command, Statement
from wherry.transport import render as renderer
from wherry.transport.on_caller import caller
from wherry.transport.render import render

FOLDER = Path(wherry.__file__).parent / "sql"
NAMES = sorted(
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in FOLDER.rglob("*.sql")
    if path.parent.name != "parts"
)
ODD_SCHEMA = 'a:b "c" %s \\ :d::e $1 \\:f'
TRICKY = r"""-- A comment with :no_parameter and 100%.
-- takes: first, second
select :first::text as a, ':first %s %% \ \: ::text $1'::text as b, :second::text::text as c,
       (array['x', 'y', 'z'])[2:3]::text as d, (7 % 4)::text as e, :first::text as f,
       "odd:name %s \ "::text as g
  from (select 'q' as "odd:name %s \ ") as q
"""


class Tricky(Command[Any]):
    """A statement with everything that some driver could take for something else."""

    def answer(self) -> Answer[Any]:
        [row] = yield Statement("tricky", {"first": "1 :x %s", "second": None})
        return tuple(row)


async def test_what_looks_like_a_parameter_and_is_none_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, plain_caller: Kind
) -> None:
    monkeypatch.setattr(renderer, "_read", lambda _: TRICKY)
    on: Any = caller(plain_caller.tx)
    schema = f"tricky {type(plain_caller).__name__}"

    if plain_caller.blocking:
        row = on.run(Tricky(), schema=schema)
    else:
        row = await on.arun(Tricky(), schema=schema)

    literal = r":first %s %% \ \: ::text $1"
    assert row == ("1 :x %s", literal, None, "{y,z}", "3", "1 :x %s", "q")


@pytest.mark.parametrize("schema", ["wherry", ODD_SCHEMA])
@pytest.mark.parametrize("name", NAMES)
def test_sqlalchemy_makes_of_a_statement_what_other_drivers_get(name: str, schema: str) -> None:
    dialect = create_async_engine("postgresql+asyncpg://").dialect
    rendered = render(name, schema, "dollar")

    compiled = text(render(name, schema, "named").text).compile(dialect=dialect)

    assert str(compiled) == rendered.text
    assert tuple(compiled.positiontup or ()) == rendered.names
