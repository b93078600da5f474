"""Positions are drawn in steps of a thousand from one migration on, and rise before it too."""

from __future__ import annotations

import psycopg
import pytest

import wherry
from wherry import migrations
from wherry.commands.parts import EnqueueInParts
from wherry.commands.tasks import DrawTaskIds
from wherry.domain.options import Options
from wherry.domain.specs import Alike, Specs
from wherry.migrations.files import read_folder
from wherry.transport.base import run

[FILE] = [file for file in read_folder() if file.name.endswith("_positions_in_blocks")]


def tasks(first: int, n: int) -> list[dict[str, object]]:
    return [{"type": "t", "payload": {"n": each}} for each in range(first, first + n)]


def stored(conn: psycopg.Connection) -> list[int]:
    """Return the tasks in the order of their positions, which no two of them share."""
    found = conn.execute(
        "select position, payload ->> 'n' from wherry.live order by position, id"
    ).fetchall()
    assert len({position for position, _ in found}) == len(found)
    return [int(n) for _, n in found]


@pytest.mark.parametrize("version", [FILE.version - 1, FILE.version])
def test_tasks_stand_in_the_order_of_their_calls(dsn: str, version: int) -> None:
    """Also where the schema is older than the App, which asks for no version to enqueue."""
    migrations.migrate(dsn, up_to=version)
    app = wherry.App(dsn)

    app.enqueue_many(tasks(0, 1000))
    app.enqueue("t", {"n": 1000})
    app.enqueue_many(tasks(1001, 999))
    migrations.migrate(dsn)
    app.enqueue_many(tasks(2000, 1000))
    app.close()

    with psycopg.connect(dsn, autocommit=True) as conn:
        assert stored(conn) == list(range(3000))


def test_a_part_that_is_larger_than_a_step_shares_no_position(dsn: str) -> None:
    migrations.migrate(dsn)
    like = Options().spec("t", "")
    with psycopg.connect(dsn, autocommit=True) as conn:
        for first in (0, 1500):
            payloads = [f'{{"n": {n}}}' for n in range(first, first + 1500)]
            ids = tuple(run(conn, DrawTaskIds(1500), schema="wherry"))
            one_part = Specs(1, lambda *_, payloads=payloads: [Alike(like, payloads)])
            run(conn, EnqueueInParts(one_part, ids, token=0), schema="wherry")

        assert stored(conn) == list(range(3000))
