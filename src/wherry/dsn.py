"""Reads the name of a database, or of a server that has one, and never repeats it in an error.

It may hold a password. Whoever connects reads the DSN here first; psycopg's own error for a text
that is none quotes it.

    postgresql://user@host/database      or libpq's 'host=… dbname=…': the database itself
    grpc://host:50051                    a Wherry server, in the clear
    grpcs://host:50051?ca=/etc/ca.pem    a Wherry server, over TLS

A server's address may name files: `ca` (whom to trust, instead of what the system trusts), `cert`
and `key` (who we are), and `token_file`. The token itself is a secret, and addresses get into logs,
so it is read from that file or from $WHERRY_TOKEN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from wherry.errors import ConfigError

_PLAIN, _TLS = "grpc", "grpcs"
_SCHEMES: Final = (f"{_PLAIN}://", f"{_TLS}://")
_TLS_FILES: Final = ("ca", "cert", "key")
_SAID: Final = "write grpc://host:port, or grpcs://host:port for TLS"
DEFAULT_SERVER_PORT: Final = 50051


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a Wherry server is, and the files with what it takes to be let in."""

    host: str
    port: int
    tls: bool
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    token_file: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_TLS if self.tls else _PLAIN}://{host}:{self.port}"


def check_text(dsn: object) -> str:
    """Return *dsn* if it is a text at all. Raises ConfigError."""
    if isinstance(dsn, str):
        if "\0" in dsn:
            # libpq reads no further, and would be sent to another database than was meant.
            raise ConfigError("the DSN holds a NUL character: leave it out")
        return dsn
    raise ConfigError(f"the DSN must be a string, not {type(dsn).__name__}")


def is_server(dsn: str) -> bool:
    """Whether *dsn* is the address of a server, readable or not."""
    return dsn.startswith(_SCHEMES)


def read_dsn(dsn: object) -> dict[str, Any]:
    """Return the parameters of *dsn*, libpq's conninfo or URI. Raises ConfigError if it is none."""
    text = check_text(dsn)
    if is_server(text):
        raise ConfigError(
            "the DSN is a server's address, and this needs the database itself: migrations and"
            " maintenance are the server's own business; name the database where it is run"
        )
    try:
        return dict(conninfo_to_dict(text))
    except (ProgrammingError, UnicodeError):
        raise ConfigError(
            "the DSN cannot be read: write postgresql://user@host/database, or"
            " 'host=… dbname=…', or embedded:, or a server's address as in grpc://host:port"
        ) from None


def read_server(dsn: str) -> ServerAddress:
    """Return the address that *dsn*, for which `is_server` holds, names. Raises ConfigError."""
    try:
        parts = urlsplit(dsn)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"the server's address cannot be read: {_SAID}") from None
    if "@" in parts.netloc:
        raise ConfigError(
            "a server's address holds no user, password or token: put the token into"
            " $WHERRY_TOKEN, or name a file with ?token_file="
        )
    if not host or any(character.isspace() for character in host):
        raise ConfigError(f"the server's address names no host: {_SAID}")
    if parts.path.strip("/") or parts.fragment:
        raise ConfigError(f"a server's address ends with the port: {_SAID}")
    files = _files(parts)
    if ("cert" in files) != ("key" in files):
        raise ConfigError("a server's address needs both cert= and key=, or neither")
    if parts.scheme == _PLAIN and any(name in files for name in _TLS_FILES):
        raise ConfigError("ca=, cert= and key= are for TLS: write grpcs:// instead of grpc://")
    return ServerAddress(
        host=host, port=DEFAULT_SERVER_PORT if port is None else port,
        tls=parts.scheme == _TLS, **files,
    )  # fmt: skip


def _files(parts: SplitResult) -> dict[str, str]:
    known = (*_TLS_FILES, "token_file")
    files: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            # Not repeated: somebody may have put a token there.
            raise ConfigError(f"a server's address takes only {', '.join(known)} behind its `?`")
        if not value or name in files:
            raise ConfigError(f"a server's address has {name}= without a file, or twice")
        files[name] = value
    return files
