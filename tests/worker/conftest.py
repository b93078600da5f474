"""A loop that forgives nothing, and what tests of workers need besides their database."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
async def strict_loop() -> AsyncIterator[None]:
    """The loop is in debug mode; an exception that nobody retrieved fails the test."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    # Whether a callback was slow is not for a shared machine to tell.
    loop.slow_callback_duration = 30.0
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
