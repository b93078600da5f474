"""Composes a server: a service, the doors to it, and how all of it ends.

Whoever can reach a server that asks for no tokens may do everything. So it asks for them as soon as
one of its addresses can be reached from other machines, unless somebody says that it must not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from wherry.app.loop import refuse_unfit_loop
from wherry.commands.tokens import ListTokens
from wherry.config import ServerSettings
from wherry.doctor.guard import require_fit
from wherry.errors import ConfigError, Unavailable, WherryError
from wherry.server.addresses import Address, parse_address
from wherry.server.auth import Authenticator, Polls
from wherry.server.doors import Door, get_metered, grpc_door, http_door
from wherry.server.running import Running, running_service
from wherry.telemetry.loggers import logger
from wherry.telemetry.readings import Reading, steadily
from wherry.worker.signals import handled

if TYPE_CHECKING:
    from wherry.app.app import App

log = logger("wherry.server")

_LEAVE_WITHIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a server listens, and whether it asks for tokens."""

    grpc: Address | None
    http: Address | None
    auth: bool
    tls: bool

    @property
    def grpc_url(self) -> str | None:
        """What a client is given for gRPC."""
        return None if self.grpc is None else str(self.grpc)

    @property
    def http_url(self) -> str | None:
        """What a client is given for HTTP."""
        return None if self.http is None else f"http{'s' if self.tls else ''}://{self.http}"


class Server:
    """A server in this process: `async with Server(app, settings) as server`.

    Leaving the block drains it: long polls are answered at once, calls under way get the
    `shutdown_grace`.
    """

    def __init__(self, app: App, settings: ServerSettings | None = None) -> None:
        """Raises ConfigError for addresses and TLS files that make no sense."""
        self.app = app
        self.settings = settings or ServerSettings()
        self._grpc = _address(self.settings.grpc_address)
        self._http = _address(self.settings.http_address)
        if self._grpc is None and self._http is None:
            raise ConfigError("a server without any door serves nobody: name one address")
        _check_tls(self.settings)
        given = [address for address in (self._grpc, self._http) if address is not None]
        self._is_private = all(address.is_loopback for address in given)
        wanted = self.settings.auth
        self.auth = not self._is_private if wanted is None else wanted
        self.bound = Bound(None, None, self.auth, self._has_tls)
        self._doors: list[Door] = []
        self._stack = AsyncExitStack()
        self._running: Running | None = None
        self._hurried = asyncio.Event()

    @property
    def _has_tls(self) -> bool:
        return self.settings.tls_cert is not None

    async def __aenter__(self) -> Self:
        self._warn()
        if self._http is not None:
            # Before anything is asked of the database, so that all of it is counted.
            get_metered(self.app)
        try:
            running = await self._stack.enter_async_context(
                running_service(self.app, self.settings)
            )
            self._running = running
            authenticator = Authenticator(self.app, required=self.auth)
            self._stack.push_async_callback(authenticator.aclose)
            self._stack.push_async_callback(self._stop_doors)
            await self._open_doors(running, authenticator)
            await self._tell_of_tokens()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def hurry(self) -> None:
        """Give the calls that are under way no more time."""
        self._hurried.set()

    async def ended(self) -> None:
        """Return only if a part of the server has ended by itself, which is a mistake of ours."""
        if self._running is not None:
            await self._running.ended()

    async def _open_doors(self, running: Running, authenticator: Authenticator) -> None:
        polls = Polls(self.settings.polls_per_token)

        def grpc(address: Address) -> Door:
            return grpc_door(running.service, authenticator, polls, address=address)

        def http(address: Address) -> Door:
            return http_door(
                running.service,
                authenticator,
                polls,
                fleet=running.fleet,
                address=address,
                is_open=not self.auth,
            )

        if self.app.meters is not None:
            told = self.app.meters.asking(
                lambda: [Reading("wherry_server_polls", (), steadily(lambda: polls.open))]
            )
            self._stack.enter_context(told)

        grpc_at = None if self._grpc is None else await self._open(grpc, self._grpc)
        http_at = None if self._http is None else await self._open(http, self._http)
        self.bound = Bound(grpc_at, http_at, self.auth, self._has_tls)

    async def _open(self, make: Callable[[Address], Door], address: Address) -> Address:
        may_move = self.settings.or_any_port
        if may_move and not address.is_free():
            address = address.with_port(0)
        try:
            door = make(address)
            port = await door.start()
        except ConfigError:
            # Somebody else may have taken it since it was looked at.
            if not may_move or address.is_free():
                raise
            door = make(address.with_port(0))
            port = await door.start()
        self._doors.append(door)
        return address.with_port(port)

    async def _stop_doors(self) -> None:
        if self._running is None:
            return
        for door in self._doors:
            await door.drain()
        self._running.desk.drain()
        grace = 0.0 if self._hurried.is_set() else self.settings.shutdown_grace.total_seconds()
        stopping = [asyncio.create_task(door.stop(grace)) for door in self._doors]
        hurried = asyncio.create_task(self._hurried.wait())
        if stopping:
            all_of_them = asyncio.gather(*stopping)
            both: set[asyncio.Future[Any]] = {all_of_them, hurried}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not all_of_them.done():
                await asyncio.gather(*(door.stop(0) for door in self._doors))
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                    await all_of_them
        hurried.cancel()

    def _warn(self) -> None:
        settings = self.settings
        if self._is_private:
            return
        if not self.auth:
            who = (
                "everybody who can reach it"
                if settings.tls_client_ca is None
                else ("everybody with a client certificate")
            )
            log.warning(
                "THIS SERVER ASKS FOR NO TOKENS and can be reached from other machines: %s may"
                " store, read and delete every task",
                who,
            )
        elif not self._has_tls:
            log.warning(
                "without TLS, tokens and payloads go over the network in clear: give --tls-cert and"
                " --tls-key, or let a proxy in front of this server do it"
            )

    async def _tell_of_tokens(self) -> None:
        if not self.auth:
            return
        try:
            async with asyncio.timeout(2.0):
                tokens = await self.app.acarry(ListTokens())
        except (Unavailable, TimeoutError):
            return
        if not tokens:
            log.warning(
                "there is no token yet, so nobody can call this server: make one with"
                " `wherry token create --name me --right admin --right enqueue --right read"
                " --right work --queue '*'`"
            )


async def serve(
    app: App,
    settings: ServerSettings | None = None,
    *,
    ready: Callable[[Bound], object] | None = None,
    signals: bool = False,
) -> None:
    """Serve until a signal comes (with *signals*), or until this is canceled.

    *ready* is called once everything listens; without it that is logged. Raises ConfigError,
    UnfitDatabase, SchemaError, ReadOnly, or Unavailable if the database cannot be reached at the
    start; later it may come and go.
    """
    server = Server(app, settings)
    if app.through_server:
        raise ConfigError("a server needs a database, and the DSN names another server")
    refuse_unfit_loop()
    dsn = await asyncio.to_thread(lambda: app.dsn)
    allow_unsafe = server.settings.allow_unsafe_database
    await asyncio.to_thread(lambda: require_fit(dsn, schema=app.schema, allow_unsafe=allow_unsafe))
    stopped = asyncio.Event()
    try:
        with handled(stop=stopped.set, hurry=server.hurry) if signals else nullcontext():
            async with server:
                (ready or _log_where)(server.bound)
                await _either(stopped, server)
    finally:
        with suppress(TimeoutError, WherryError):
            async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                await app.aclose_loop()


def _log_where(bound: Bound) -> None:
    tokens = "with" if bound.auth else "without"
    if bound.grpc_url is not None:
        log.info("serving gRPC on %s %s tokens", bound.grpc_url, tokens)
    if bound.http_url is not None:
        log.info("serving HTTP on %s %s tokens, see /docs there", bound.http_url, tokens)


async def _either(stopped: asyncio.Event, server: Server) -> None:
    """Return when it is to stop; raises what a part of the server ended with by itself."""
    waiting = asyncio.create_task(stopped.wait())
    ended = asyncio.create_task(server.ended())
    try:
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            ended.result()
    finally:
        waiting.cancel()
        ended.cancel()


def _address(text: str | None) -> Address | None:
    return None if text is None else parse_address(text)


def _check_tls(settings: ServerSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("a certificate needs its key: give --tls-cert and --tls-key together")
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        raise ConfigError("client certificates need TLS: give --tls-cert and --tls-key too")
