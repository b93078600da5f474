"""A text that names no database is refused wherever it is given, and never repeated."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import wherry
from wherry import migrations
from wherry.dsn import read_dsn

# libpq repeats all of it in its error.
UNREADABLE = "postgres//me:hunter2@db/shop"

CALLS: list[Callable[[wherry.App], object]] = [
    lambda app: app.enqueue("mail.send"),
    lambda app: asyncio.run(app.aenqueue("mail.send")),
    lambda app: app.migrate(),
    lambda app: app.dsn,
    lambda app: app.work(["mail"]),
    lambda app: migrations.check(UNREADABLE),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_way_to_the_database_refuses_what_is_no_dsn_without_repeating_it(
    call: Callable[[wherry.App], object],
) -> None:
    """SEC-06."""
    app = wherry.App(UNREADABLE)
    app.task(name="mail.send")(lambda: None)

    with pytest.raises(wherry.ConfigError, match="the DSN cannot be read") as refused:
        call(app)

    assert "hunter2" not in str(refused.value)
    # Nor does a traceback go on to what psycopg said, which quotes it.
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("value", [5, b"host=db", object()])
def test_what_is_no_text_is_no_dsn(value: Any) -> None:
    with pytest.raises(wherry.ConfigError, match="the DSN must be a string"):
        wherry.App(value).enqueue("mail.send")


def test_no_dsn_is_cut_off_at_a_nul() -> None:
    with pytest.raises(wherry.ConfigError, match="NUL"):
        read_dsn("dbname=shop\0_test")


def test_what_libpq_takes_is_taken() -> None:
    assert read_dsn("postgresql://ada@db:5433/shop")["host"] == "db"
    assert read_dsn("host=db dbname=shop") == {"host": "db", "dbname": "shop"}
    assert read_dsn("") == {}
