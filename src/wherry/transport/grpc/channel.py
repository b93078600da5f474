"""How channels to a server are made: dead peers are noticed, and who we are is said at each call.

A channel connects when it is first used, and again, by itself, for as long as it is open.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic
from typing import Any, Final

import grpc
import grpc.aio

from wherry.config import TOKEN_VARIABLE
from wherry.domain.token import read_token
from wherry.dsn import ServerAddress
from wherry.errors import ConfigError
from wherry.transport.grpc.forks import keep, refuse_awaited

# A token's file is looked at again after so long: tokens are rotated under running workers.
_TOKEN_SECONDS: Final = 5.0
_LONGEST_TOKEN: Final = 4096

_OPTIONS: Final[list[tuple[str, Any]]] = [
    # A server that vanished without a word is noticed within 25 s, also during a long poll.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # The one above does nothing in this gRPC, where an unanswered ping has a timeout of its own.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # How long one attempt to connect may take, in spite of its name.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # Of a name with several addresses all are used; one that is away is passed over.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    # What a server sends is bounded by what it was asked for; what it takes, it says itself.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Else all channels of a process share a connection: handlers must not hold up heartbeats.
    ("grpc.use_local_subchannel_pool", 1),
]


def open_channel(address: ServerAddress) -> grpc.Channel:
    """Return a blocking channel. Raises ConfigError for files that cannot be read."""
    if address.tls:
        return keep(grpc.secure_channel(_target(address), _credentials(address), _OPTIONS))
    return keep(grpc.insecure_channel(_target(address), _OPTIONS))


def aopen_channel(address: ServerAddress) -> grpc.aio.Channel:
    """Return a channel of the running loop.

    Raises ConfigError for files that cannot be read, and in a process that was forked beside one.
    """
    refuse_awaited()
    if address.tls:
        return keep(grpc.aio.secure_channel(_target(address), _credentials(address), _OPTIONS))
    return keep(grpc.aio.insecure_channel(_target(address), _OPTIONS))


class Token:
    """The token of one address: what is in its file now, or in $WHERRY_TOKEN."""

    def __init__(self, address: ServerAddress) -> None:
        self._path = address.token_file
        self._metadata: tuple[tuple[str, str], ...] = ()
        self._is_formed = False
        self._read_at = -_TOKEN_SECONDS

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what a call is sent with. Raises ConfigError for what is no token."""
        if monotonic() - self._read_at >= _TOKEN_SECONDS:
            token = self._read()
            self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
            self._is_formed = read_token(token) is not None
            self._read_at = monotonic()
        return self._metadata

    def refused(self) -> None:
        """Look again at the next call: this one may have been rotated."""
        self._read_at = -_TOKEN_SECONDS

    def told(self) -> str:
        """Return what was sent, and where it is from, for people; never the token itself."""
        if not self._metadata:
            return f"none was sent: set ${TOKEN_VARIABLE}, or name a file with ?token_file="
        place = f"${TOKEN_VARIABLE}" if self._path is None else self._path
        if self._is_formed:
            return f"one was sent, from {place}"
        return f"what was sent, from {place}, is none: tokens are wherry_<id>_<secret>"

    def _read(self) -> str:
        if self._path is None:
            place, token = f"${TOKEN_VARIABLE}", os.environ.get(TOKEN_VARIABLE, "")
        else:
            place, token = self._path, _file(self._path, of="token_file").decode("utf-8", "replace")
        token = token.strip()
        if len(token) > _LONGEST_TOKEN or not all("!" <= character <= "~" for character in token):
            # The text itself is a secret, or something that was never meant for here.
            raise ConfigError(f"{place} holds no token: it must be one line, as it was printed")
        if self._path is not None and not token:
            raise ConfigError(f"{place} holds no token: it is empty")
        return token


def _target(address: ServerAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"dns:///{host}:{address.port}"


def _credentials(address: ServerAddress) -> grpc.ChannelCredentials:
    def read(name: str) -> bytes | None:
        path: str | None = getattr(address, name)
        return None if path is None else _file(path, of=name)

    return grpc.ssl_channel_credentials(
        root_certificates=read("ca"), private_key=read("key"), certificate_chain=read("cert")
    )


def _file(path: str, *, of: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            f"the server's address names {path} as {of}, which cannot be read: {reason}"
        ) from None
