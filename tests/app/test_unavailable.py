"""What an App says of a database that it cannot reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

import wherry


def test_a_database_out_of_reach_is_told_with_the_reason(tmp_path: object) -> None:
    app = wherry.App(f"host={tmp_path} dbname=nowhere", pool_timeout=0.2)

    with pytest.raises(wherry.Unavailable, match=r"in 0\.2 s: .*No such file"):
        app.get_task(1)

    app.close()


async def test_the_awaited_form_tells_it_too(tmp_path: object) -> None:
    async with wherry.App(f"host={tmp_path} dbname=nowhere", pool_timeout=0.2) as app:
        with pytest.raises(wherry.Unavailable, match="No such file"):
            await app.aget_task(1)


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03", "53100"])
async def test_trouble_that_does_not_pass_in_time_is_one_error_of_ours(
    dsn: str, connect: Callable[..., psycopg.Connection[object]], sqlstate: str
) -> None:
    """SCL-08: a lock that somebody keeps, or a full disk: who enqueues may try again later."""
    connect().execute(
        sql.SQL(
            "create function public.refuses() returns trigger language plpgsql"
            " as $$ begin raise 'no luck' using errcode = {}; end $$;"
            " create trigger refuses before insert on wherry.live"
            " for each statement execute function public.refuses()"
        ).format(sqlstate)
    )

    async with wherry.App(dsn, pool_timeout=0.3) as app:
        with pytest.raises(wherry.Unavailable, match="no luck"):
            await app.aenqueue("t")
        with pytest.raises(wherry.Unavailable, match="no luck"):
            await asyncio.to_thread(app.enqueue, "t")
