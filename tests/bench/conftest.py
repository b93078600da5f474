"""The test's database as a place to measure on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wherry.bench.place import Place


@pytest.fixture
def place(dsn: str) -> Iterator[Place]:
    """The test's database, with no schema of a benchmark in it yet."""
    made = Place(dsn)
    yield made
    made.connection.close()
