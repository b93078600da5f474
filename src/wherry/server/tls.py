"""Certificates from files, read again when the files have changed.

Whoever renews certificates writes two files, one after the other; between the two they do not fit.
What does not fit, or cannot be read, leaves the certificate that serves in its place.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from wherry.errors import ConfigError
from wherry.telemetry.loggers import logger

C = TypeVar("C")

log = logger("wherry.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSFiles:
    """Where the server's certificate chain and key are, as PEM.

    With `client_ca` only clients with a certificate signed by it are let in (mutual TLS).
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Certificates(Generic[C]):
    """What serves now, in the form in which one door's library takes it."""

    def __init__(self, files: TLSFiles, *, read: Callable[[TLSFiles], C]) -> None:
        """Read the files. Raises ConfigError if they cannot serve.

        *read* raises OSError or ValueError then; `loaded` does.
        """
        self._files = files
        self._read = read
        self._lock = threading.Lock()
        self._said = ""
        try:
            self._stamp = self._stamped()
            self.serving = read(files)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS cannot be served: {_told(error)}") from error

    def renew(self) -> bool:
        """Look at the files, from whatever thread; says whether there is something else to serve.

        For each new connection: so a renewed certificate serves from the next one on.
        """
        with self._lock:
            try:
                stamp = self._stamped()
                if stamp == self._stamp:
                    return False
                found = self._read(self._files)
                if self._stamped() != stamp:
                    # They are being written just now: the next connection looks again.
                    return False
            except (OSError, ValueError) as error:
                said = _told(error)
                if said != self._said:
                    self._said = said
                    log.error("the new TLS files cannot serve, the old ones go on: %s", said)
                return False
            self._stamp, self._said = stamp, ""
            if found == self.serving:
                return False
            self.serving = found
            log.info("serving the new certificate in %s", self._files.certificate)
            return True

    def _stamped(self) -> list[tuple[int, int, int]]:
        files = self._files
        stats = [path.stat() for path in (files.certificate, files.key, files.client_ca) if path]
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]


def loaded(files: TLSFiles) -> ssl.SSLContext:
    """Return a context that has the files. Raises ValueError or OSError if they cannot serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password of its own OpenSSL would ask for one on the terminal.
    context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
    return context


def _told(error: Exception) -> str:
    # An SSLError says which file only in words of its own.
    return f"{type(error).__name__}: {error}"
