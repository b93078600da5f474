"""What `--metrics` does: a worker serves its numbers, a supervisor those of all its workers.

    worker 1 … N ──── a line of JSON a second, through a pipe ────► supervisor ──── /metrics

A worker that has died still counts in what only grows, by what it said last; what is said of now
(slots, what runs) ends with it. The library's own way to add up processes, files that all of them
map, would take callbacks from every metric that the application has itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wherry.errors import ConfigError
from wherry.server.addresses import Address, parse_address
from wherry.telemetry.loggers import logger
from wherry.telemetry.readings import Buckets, Reading, added_up, from_json, to_json

if TYPE_CHECKING:
    import asyncio

    from prometheus_client import CollectorRegistry

    from wherry.app.app import App

F = TypeVar("F", bound=Callable[..., Any])

log = logger("wherry.metrics")

_TELL_EVERY_SECONDS = 1.0
_LAST_WORDS_SECONDS = 1.0
_LONGEST_LINE_BYTES = 16 * 1024 * 1024
# So long a handler may block the loop until the process is better started anew.
_BLOCKED_SECONDS = 60.0


def _address(text: str) -> Address:
    try:
        return parse_address(text)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


def with_metrics(command: F) -> F:
    """Add the options of a worker that serves its numbers."""
    made: Any = command
    for option in (
        click.option("--metrics-to", type=int, hidden=True, help="The supervisor's other pipe."),
        click.option(
            "--metrics",
            "metrics_at",
            metavar="ADDRESS",
            type=_address,
            help="Serve /metrics for Prometheus, and /healthz, here; nobody is asked for a token.",
        ),
    ):
        made = option(made)
    result: F = made
    return result


@contextmanager
def of_worker(app: App, address: Address | None, *, tell: int | None) -> Generator[None]:
    """Serve this worker's numbers inside the block, or tell them to its supervisor, or neither."""
    if tell is not None:
        with _telling(app, tell):
            yield
    elif address is not None:
        with _needed():
            from prometheus_client import REGISTRY

            from wherry.integrations.prometheus import Collector, metered
        # Beside what the application, and the library itself, have there.
        REGISTRY.register(Collector(app))
        meters = metered(app)
        with _serving(REGISTRY, address, trouble=lambda: trouble_in(meters.read())):
            yield
    else:
        yield


@contextmanager
def of_supervisor(told: Told, address: Address | None) -> Generator[None]:
    """Serve what *told* knows inside the block."""
    if address is None:
        yield
        return
    with _needed():
        from prometheus_client import CollectorRegistry

        from wherry.integrations.prometheus import Shown
    registry = CollectorRegistry()
    registry.register(Shown(told.read))
    with _serving(registry, address, trouble=told.trouble):
        yield


class Told:
    """What the workers of a supervisor have told, all together."""

    def __init__(self, *, wanted: int) -> None:
        self._wanted = wanted
        self._started = 0
        self._last: dict[int, list[Reading]] = {}
        self._kept: list[Reading] = []
        self._lock = threading.Lock()

    def read(self) -> list[Reading]:
        """Return the sum of what was told last, and of what is kept of workers that are gone."""
        with self._lock:
            told = [*self._kept, *(each for last in self._last.values() for each in last)]
            return [
                *added_up(told),
                Reading("wherry_supervisor_workers_wanted", (), self._wanted),
                Reading("wherry_supervisor_starts_total", (), self._started),
            ]

    def trouble(self) -> str | None:
        """Say that no worker runs, if so."""
        with self._lock:
            return None if self._last or not self._started else "no worker runs"

    @asynccontextmanager
    async def by_one(self) -> AsyncGenerator[int]:
        """Hear a worker that is started inside the block, through the descriptor that this gives.

        Whoever gave it to the worker closes it.
        """
        import asyncio

        reading, writing = os.pipe()
        with self._lock:
            self._started += 1
            number = self._started
            self._last[number] = []
        reader = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: protocol, os.fdopen(reading, "rb", buffering=0)
        )
        hearing = asyncio.create_task(self._hear(number, reader), name=f"metrics-{number}")
        try:
            yield writing
        finally:
            # What it said at its end; a program that its handlers left behind may hold the pipe.
            await asyncio.wait([hearing], timeout=_LAST_WORDS_SECONDS)
            hearing.cancel()
            transport.close()
            with self._lock:
                last = self._last.pop(number)
                self._kept = added_up([*self._kept, *(r for r in last if r.only_grows)])

    async def _hear(self, number: int, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            # The last one of a worker that was killed may be cut.
            with suppress(ValueError):
                readings = from_json(line)
                with self._lock:
                    self._last[number] = readings


@contextmanager
def _telling(app: App, fd: int) -> Generator[None]:
    with _needed():
        from wherry.integrations.prometheus import metered
    with suppress(OSError):
        # Of no use to the programs that handlers start.
        os.set_inheritable(fd, False)
    meters = metered(app)
    over = threading.Event()

    def tell() -> None:
        with suppress(OSError), os.fdopen(fd, "w") as pipe:
            while True:
                is_last = over.wait(_TELL_EVERY_SECONDS)
                pipe.write(to_json(meters.read()) + "\n")
                pipe.flush()
                if is_last:
                    return

    thread = threading.Thread(target=tell, name="wherry-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_LAST_WORDS_SECONDS)


@contextmanager
def _serving(
    registry: CollectorRegistry, address: Address, *, trouble: Callable[[], str | None]
) -> Generator[None]:
    from wherry.integrations.endpoint import served

    with served(registry, host=address.host, port=address.port, trouble=trouble) as port:
        log.info("serving metrics on http://%s/metrics", address.with_port(port))
        yield


def trouble_in(readings: list[Reading]) -> str | None:
    """Say why a worker that tells this had better be started anew, if it had."""
    for name, _, value in readings:
        if isinstance(value, Buckets) or name != "wherry_worker_loop_blocked_seconds":
            continue
        if value > _BLOCKED_SECONDS:
            return f"a handler has blocked the event loop for {value:.0f} s"
    return None


@contextmanager
def _needed() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"metrics need more than is installed here ({error}): `pip install 'wherry[metrics]'`"
        ) from error
