"""Where a server listens: `host:port`, `[::1]:port`, or `:port` for every IPv4 address there is.

Port 0 takes a free one. Only an address that is certainly this machine's own loopback counts as
private: a name other than `localhost` may mean anything.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from wherry.errors import ConfigError

_EVERYWHERE: Final = "0.0.0.0"  # a choice, made by writing no host
_HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def with_port(self, port: int) -> Address:
        """Return the same host's other port."""
        return Address(self.host, port)

    def is_free(self) -> bool:
        """Whether somebody who listens there now would get it."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError:
                return False
        return True

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that *text* names. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise ConfigError(
            f"{text!r} is no address to listen on: write host:port, such as 127.0.0.1:8080, or"
            " :8080 for every address of this machine"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise ConfigError(f"{text!r}: what stands in brackets must be an IPv6 address")
    elif ":" in host:
        raise ConfigError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:8080")
    return Address(host or _EVERYWHERE, int(port))


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
