"""The HTTP door: uvicorn in the loop that is running, without its signals, prints and exits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from wherry.config import DEFAULT_HTTP_ADDRESS
from wherry.errors import ConfigError
from wherry.server.addresses import parse_address
from wherry.server.http.app import HttpApp
from wherry.server.http.health import Health
from wherry.server.http.listening import ListeningSocket
from wherry.server.http.metrics import Metrics
from wherry.server.http.protocol import Connection
from wherry.server.http.tls import listening_context
from wherry.server.tls import TLSFiles

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator, Polls
    from wherry.server.dashboard import Dashboard
    from wherry.server.metrics import Fleet
    from wherry.server.service import Service

_BACKLOG: Final = 1024
_KEEP_ALIVE_SECONDS: Final = 75
# What uvicorn itself needs to end, beside the grace that calls get.
_LEAVE_WITHIN_SECONDS: Final = 1.0
_TICK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Where the door is, and who may come in.

    `is_open`: nobody is asked for a token; then requests that other web sites have browsers send
    are refused, and `hosts` are the names, beside localhost, that the server has. `root_path` is
    the prefix that a proxy takes off before it passes a request on. `dashboard`: people find one.
    """

    address: str = DEFAULT_HTTP_ADDRESS
    tls: TLSFiles | None = None
    is_open: bool = False
    hosts: tuple[str, ...] = ()
    root_path: str = ""
    dashboard: bool = False


class HttpDoor:
    """An HTTP server. `start`, then maybe `drain`, then `stop`; each once."""

    def __init__(
        self,
        service: Service,
        authenticator: Authenticator,
        polls: Polls,
        settings: HttpSettings | None = None,
        *,
        fleet: Fleet | None = None,
    ) -> None:
        """*fleet*: what is told of all tasks at /metrics, which without it is of this process."""
        self._service = service
        self._authenticator = authenticator
        self._polls = polls
        self._settings = settings or HttpSettings()
        self._health = Health(service.app)
        self._metrics = Metrics(service.app, fleet)
        self._app: HttpApp | None = None
        self._dashboard: Dashboard | None = None
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._sockets: list[ListeningSocket] = []
        self.port = 0

    async def start(self) -> int:
        """Listen; returns the port. Raises ConfigError if address or TLS files cannot serve."""
        settings = self._settings
        context = None if settings.tls is None else listening_context(settings.tls)
        if settings.dashboard:
            self._dashboard = _dashboard(
                self._service, self._authenticator, is_open=settings.is_open
            )
        self._app = app = HttpApp(
            self._service,
            authenticator=self._authenticator,
            polls=self._polls,
            health=self._health,
            metrics=self._metrics,
            is_open=settings.is_open,
            hosts=settings.hosts,
            dashboard=self._dashboard,
        )
        config = _config(
            app,
            request_seconds=self._service.settings.request_timeout.total_seconds(),
            root_path=settings.root_path.rstrip("/"),
            context=context,
        )
        self._sockets = sockets = await asyncio.to_thread(_bound, settings.address)
        self.port = sockets[0].getsockname()[1]
        self._server = server = _Server(config)
        self._serving = asyncio.create_task(server.serve(sockets=[*sockets]), name="http")
        while not server.started:
            if self._serving.done():
                self._serving.result()
                raise ConfigError(f"the HTTP door at {settings.address} did not open")
            await asyncio.sleep(_TICK_SECONDS)
        return self.port

    async def drain(self) -> None:
        """Say that this server serves no more, for balancers to hear; calls are still answered."""
        self._health.draining = True
        if self._dashboard is not None:
            # Streams would hold it open for the whole of its grace.
            await self._dashboard.live.close()

    async def stop(self, grace_seconds: float) -> None:
        """Take no more calls, give those under way *grace_seconds*, and end what is left."""
        server, serving = self._server, self._serving
        if server is None or serving is None:
            return
        await self.drain()
        # Whole seconds are what uvicorn's types know; it only hands them to asyncio.
        server.config.timeout_graceful_shutdown = grace_seconds  # type: ignore[assignment]
        server.should_exit = True
        await asyncio.wait([serving], timeout=grace_seconds + _LEAVE_WITHIN_SECONDS)
        # What was canceled just now says so to its client.
        if answering := list(server.server_state.tasks):
            await asyncio.wait(answering, timeout=_LEAVE_WITHIN_SECONDS)
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        # No protocol of ours knows of who has not finished a TLS handshake.
        for sock in self._sockets:
            sock.hang_up()
        if not serving.done():
            serving.cancel()
        await asyncio.wait([serving], timeout=_LEAVE_WITHIN_SECONDS)
        if self._dashboard is not None:
            await self._dashboard.aclose()
        if self._app is not None:
            await self._app.underway.settle(within_seconds=_LEAVE_WITHIN_SECONDS)


def _dashboard(service: Service, authenticator: Authenticator, *, is_open: bool) -> Dashboard:
    # Only here: its templates need what a door without a dashboard does not.
    from wherry.server.dashboard import Dashboard

    return Dashboard(service, authenticator, is_open=is_open)


class _Server(uvicorn.Server):
    """A uvicorn that leaves the process's signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture nothing: signals belong to whoever runs this server."""
        yield


def _config(
    app: HttpApp, *, request_seconds: float, root_path: str, context: ssl.SSLContext | None
) -> uvicorn.Config:
    protocol: Any = functools.partial(Connection, request_seconds=request_seconds)
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=protocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        # Its warnings are about what clients send, and any client could fill the log with them.
        log_level="error",
        access_log=False,
        # Whoever sends X-Forwarded-For may have made it up; who asks is the peer that we see.
        proxy_headers=False,
        server_header=False,
        root_path=root_path,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        backlog=_BACKLOG,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )


def _bound(address: str) -> list[ListeningSocket]:
    """Return sockets on all that *address* stands for, with one port. Raises ConfigError."""
    asked = parse_address(address)
    port = asked.port
    sockets: list[ListeningSocket] = []
    try:
        found = socket.getaddrinfo(
            asked.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in dict.fromkeys(found):
            sock = ListeningSocket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Where any port will do, the first one's serves for all.
            sock.bind((place[0], port, *place[2:]))
            port = sock.getsockname()[1]
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise ConfigError(
            f"cannot listen on {address} for HTTP: another program may have this port, or the host"
            " is none of this machine's addresses"
        ) from error
    return sockets
