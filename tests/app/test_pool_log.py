"""The log of the host's own pools is the host's: ours alone are kept quiet."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from psycopg_pool import ConnectionPool, PoolTimeout

import wherry

NOWHERE = "host=127.0.0.1 port=1 dbname=x"


def test_our_pools_say_nothing_of_a_database_that_is_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="psycopg.pool")

    with wherry.App(NOWHERE, pool_timeout=0.3) as app, pytest.raises(wherry.Unavailable):
        app.list_queues()

    told = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert told == []


def test_a_pool_of_the_host_says_what_it_always_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="psycopg.pool")
    wherry.App(NOWHERE)

    with (
        ConnectionPool[Any](NOWHERE, min_size=0, max_size=1, open=True, name="hosts") as pool,
        pytest.raises(PoolTimeout),
    ):
        pool.getconn(timeout=0.3)

    assert any("error connecting in 'hosts'" in record.getMessage() for record in caplog.records)
    assert logging.getLogger("psycopg.pool").level != logging.ERROR
