"""The gRPC door: one listening port with TaskQueue, health and reflection."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from wherry.config import DEFAULT_GRPC_ADDRESS
from wherry.errors import ConfigError
from wherry.server.addresses import parse_address
from wherry.server.grpc.calls import SERVICE, Calls
from wherry.server.grpc.certificates import listening_credentials
from wherry.server.grpc.reflecting import Reflection
from wherry.server.tls import TLSFiles

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator, Polls
    from wherry.server.service import Service

# Those of one connection: a thousand polls, and what goes on beside them.
_MOST_STREAMS: Final = 2000
_LEAVE_WITHIN_SECONDS: Final = 1.0
# gRPC refuses what is too large in its own words; up to here a request is read, for ours.
_READ_TO_REFUSE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Where the door is, and how it treats connections.

    A client that pings more often than `least_ping_interval` is sent away.
    """

    address: str = DEFAULT_GRPC_ADDRESS
    tls: TLSFiles | None = None
    connection_age: timedelta = timedelta(minutes=30)
    # Longer than any poll: a connection that has grown old ends between two of them.
    connection_age_grace: timedelta = timedelta(seconds=90)
    # How soon a client that vanished without a word is noticed, and its poll's place freed.
    ping_every: timedelta = timedelta(seconds=30)
    ping_timeout: timedelta = timedelta(seconds=10)
    least_ping_interval: timedelta = timedelta(seconds=10)


class GrpcDoor:
    """A gRPC server. `start`, then maybe `drain`, then `stop`; each once."""

    def __init__(
        self,
        service: Service,
        authenticator: Authenticator,
        polls: Polls,
        settings: GrpcSettings | None = None,
    ) -> None:
        self._service = service
        self._settings = settings or GrpcSettings()
        self._calls = Calls(service, authenticator=authenticator, polls=polls)
        self._health: Any = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self) -> int:
        """Listen; returns the port. Raises ConfigError if address or TLS files cannot serve."""
        settings = self._settings
        server = grpc.aio.server(options=self._options())
        reflection = Reflection(self._calls, services=(SERVICE.full_name, health.SERVICE_NAME))
        server.add_generic_rpc_handlers((self._calls.handlers(), *reflection.handlers()))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        port = self._bound(server, settings)
        await server.start()
        self.port = port
        self._server = server
        for name in ("", SERVICE.full_name):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def drain(self) -> None:
        """Say that this server serves no more, for balancers to hear; calls are still answered."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_seconds: float) -> None:
        """Take no more calls, give those under way *grace_seconds*, and end what is left."""
        if self._server is None:
            return
        await self.drain()
        await self._server.stop(grace_seconds)
        await self._calls.underway.settle(within_seconds=_LEAVE_WITHIN_SECONDS)

    def _bound(self, server: grpc.aio.Server, settings: GrpcSettings) -> int:
        try:
            if settings.tls is None:
                port = server.add_insecure_port(settings.address)
            else:
                credentials = listening_credentials(settings.tls)
                port = server.add_secure_port(settings.address, credentials)
        except RuntimeError as error:
            raise ConfigError(_cannot_listen(settings.address)) from error
        if not port:
            raise ConfigError(_cannot_listen(settings.address))
        return port

    def _options(self) -> list[tuple[str, Any]]:
        settings = self._settings
        limit_bytes = self._service.settings.request_limit_bytes
        return [
            # A port that is taken must be an error, not a share of its connections.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", _READ_TO_REFUSE * limit_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", _MOST_STREAMS),
            ("grpc.server_handshake_timeout_ms", _ms(self._service.settings.request_timeout)),
            ("grpc.max_connection_age_ms", _ms(settings.connection_age)),
            ("grpc.max_connection_age_grace_ms", _ms(settings.connection_age_grace)),
            ("grpc.keepalive_time_ms", _ms(settings.ping_every)),
            ("grpc.keepalive_timeout_ms", _ms(settings.ping_timeout)),
            # The one above does nothing in this gRPC: an unanswered ping has a timeout of its own.
            ("grpc.http2.ping_timeout_ms", _ms(settings.ping_timeout)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _ms(settings.least_ping_interval)),
        ]


def _ms(length: timedelta) -> int:
    return int(length.total_seconds() * 1000)


def _cannot_listen(text: str) -> str:
    return f"cannot listen on {text} for gRPC: {_why_not(text)}"


def _why_not(text: str) -> str:
    """Say what the system says to somebody who tries; gRPC keeps it to itself."""
    address = parse_address(text)
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, sockaddr in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(sockaddr)
    except OSError as error:
        return error.strerror or str(error)
    return "it was taken for a moment: try again"
