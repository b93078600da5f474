"""Who should hear notifications and does not says so with each beat, for the doctor to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import wherry
from tests.worker.support import at_work, until
from wherry.domain.worker import WorkerSeen
from wherry.server.caller import ANYBODY
from wherry.server.running import running_service
from wherry.worker import keeper

SOON = timedelta(milliseconds=100)


class Unreachable:
    """A connection to listen on that nobody gets."""

    @staticmethod
    async def connect(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")


@pytest.fixture(autouse=True)
def _beats_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_BEAT_WORKER_EVERY", 0.0)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nobody can connect to listen until this is undone."""
    with monkeypatch.context() as patch:
        patch.setattr("wherry.transport.listen.AsyncReserved", Unreachable)
        yield patch


async def seen(app: wherry.App, fits: Callable[[WorkerSeen], bool], what: str) -> WorkerSeen:
    async def found() -> WorkerSeen | None:
        return next((worker for worker in await app.alist_workers() if fits(worker)), None)

    return await until(found, what=what, seconds=30)


async def test_a_worker_says_that_it_is_deaf_until_it_hears_again(
    app: wherry.App, cut: pytest.MonkeyPatch
) -> None:
    app.task(name="t")(lambda: None)

    async with at_work(app, poll_every=SOON, lease_for=1):
        worker = await seen(app, lambda worker: worker.deaf_since is not None, "it is deaf")
        assert (worker.deaf_seconds or 0.0) > 0.0

        cut.undo()

        await seen(app, lambda worker: worker.deaf_since is None, "it hears")


async def test_a_worker_that_need_not_listen_is_not_deaf(
    app: wherry.App, cut: pytest.MonkeyPatch
) -> None:
    app.task(name="t")(lambda: None)

    async with at_work(app, poll_every=SOON, lease_for=1, listen=False):
        first = await seen(app, lambda worker: worker.alive, "it is listed")

        later = await seen(app, lambda worker: worker.beat_at > first.beat_at, "it beats again")

        assert later.deaf_since is None


async def test_of_a_server_that_is_deaf_its_workers_are_told(
    app: wherry.App, cut: pytest.MonkeyPatch
) -> None:
    async with running_service(app) as running:
        await running.service.lease(ANYBODY, worker="w")

        await seen(app, lambda worker: worker.deaf_since is not None, "it is deaf")
