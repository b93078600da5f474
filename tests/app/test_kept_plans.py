"""What enqueues is planned once for a connection, not anew for each call.

PostgreSQL keeps a plan if it takes one made for the very parameters to be no cheaper. That one cast
stood where it was thought to be run ten thousand times cost each call of a few tasks 200 us.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import wherry
from wherry.commands.base import Command
from wherry.commands.tasks import EnqueueTasks
from wherry.config import PoolSettings
from wherry.domain.options import Options, TaskSpec
from wherry.domain.task import Enqueued
from wherry.transport.session_blocking import SessionTransport

# It makes a plan for each of the first five sets of parameters before it compares.
COMPARED = 5
CALLS = 8


@pytest.fixture
def session(app: wherry.App) -> Iterator[SessionTransport]:
    transport = SessionTransport(
        app.dsn, schema="wherry", name="wherry app", settings=PoolSettings()
    )
    yield transport
    transport.close()


def plain(n: int) -> list[TaskSpec]:
    return [Options().spec("t", f'{{"n":{i}}}') for i in range(n)]


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
@pytest.mark.parametrize("kind", ["plain", "keys"])
def test_a_plan_is_kept(session: SessionTransport, n: int, kind: str) -> None:
    def asked(call: int) -> Command[list[Enqueued]]:
        specs = plain(n)
        if kind == "keys":
            specs[0] = specs[0]._replace(key=f"k{call}")
        return EnqueueTasks(tuple(specs), tuple(range(call * n + 1, call * n + n + 1)), token=1)

    for call in range(CALLS):
        session.call(asked(call))

    [[custom, generic]] = (
        session.connection()
        .execute(
            "select custom_plans, generic_plans from pg_prepared_statements"
            " where name like 'wherry_%'"
        )
        .fetchall()
    )
    assert (custom, generic) == (COMPARED, CALLS - COMPARED)


def test_a_parameter_is_read_by_its_type_and_not_cast_at_each_run(
    session: SessionTransport,
) -> None:
    session.call(EnqueueTasks((Options().spec("t", "{}"),), (1,), token=1))

    [[types]] = (
        session.connection()
        .execute(
            "select array_agg(distinct t::text) from pg_prepared_statements p,"
            " unnest(p.parameter_types) t where p.name like 'wherry_%'"
        )
        .fetchall()
    )
    assert {"bigint", "json", "text[]", "smallint", "boolean"} <= set(types)
