"""Makes the doors of a server.

Their libraries are imported as late as this, and by need: who installed only some of them, or none,
is told what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wherry.config import ServerSettings
from wherry.errors import ConfigError
from wherry.server.addresses import Address
from wherry.server.tls import TLSFiles
from wherry.transport.grpc import hush

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.auth import Authenticator, Polls
    from wherry.server.metrics import Fleet
    from wherry.server.service import Service


class Door(Protocol):
    """What a door has to do, whatever it speaks."""

    async def start(self) -> int:
        """Listen; returns the port. Raises ConfigError."""
        ...

    async def drain(self) -> None:
        """Say that this server serves no more."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Take no more calls, give those under way some time, and end what is left."""
        ...


def grpc_door(
    service: Service, authenticator: Authenticator, polls: Polls, *, address: Address
) -> Door:
    """Return the gRPC door, not started yet. Raises ConfigError."""
    hush()
    try:
        from wherry.server.grpc import GrpcDoor, GrpcSettings
    except ImportError as error:
        raise _not_installed("gRPC", error) from error

    settings = GrpcSettings(address=str(address), tls=_files(service.settings))
    return GrpcDoor(service, authenticator, polls, settings)


def get_metered(app: App) -> None:
    """Have an App count what it asks of the database. Raises ConfigError."""
    try:
        from wherry.integrations.prometheus import metered
    except ImportError as error:
        raise _not_installed("HTTP", error) from error
    metered(app)


def http_door(
    service: Service,
    authenticator: Authenticator,
    polls: Polls,
    *,
    fleet: Fleet,
    address: Address,
    is_open: bool,
) -> Door:
    """Return the HTTP door, not started yet; *is_open*: it asks for no token.

    Raises ConfigError.
    """
    try:
        from wherry.server.http import HttpDoor, HttpSettings
    except ImportError as error:
        raise _not_installed("HTTP", error) from error

    given = service.settings
    settings = HttpSettings(
        address=str(address),
        tls=_files(given),
        is_open=is_open,
        hosts=given.http_hosts,
        dashboard=given.dashboard,
    )
    return HttpDoor(service, authenticator, polls, settings, fleet=fleet)


def _files(settings: ServerSettings) -> TLSFiles | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TLSFiles(
        certificate=settings.tls_cert, key=settings.tls_key, client_ca=settings.tls_client_ca
    )


def _not_installed(what: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"a server for {what} needs more than is installed here ({error}):"
        " `pip install 'wherry[server]'`"
    )
