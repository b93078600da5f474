"""A service on the test's database, as both doors have it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import pytest

import wherry
from wherry.config import WorkerSettings
from wherry.server import problems
from wherry.server.desk import Desk
from wherry.server.running import Running, running_service
from wherry.server.service import Service


@pytest.fixture(autouse=True)
def _complaints_anew() -> None:
    """What an earlier test logged holds back no line of this one."""
    problems.complaints.forget()


@pytest.fixture
def told_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A desk that finds tasks because it is told of them: it looks again in ten minutes."""
    rarely = partial(WorkerSettings, poll_every_when_listening=timedelta(minutes=10))
    monkeypatch.setattr("wherry.server.running.WorkerSettings", rarely)


@pytest.fixture
async def running(app: wherry.App) -> AsyncIterator[Running]:
    """What a server runs behind its doors: service, desk, listener, maintenance."""
    async with running_service(app) as made:
        yield made


@pytest.fixture
def service(running: Running) -> Service:
    """What both doors call."""
    return running.service


@pytest.fixture
def desk(running: Running) -> Desk:
    """Where polls wait."""
    return running.desk
