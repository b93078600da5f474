"""TLS for the HTTP door: certificates from files, read again when the files have changed.

At each handshake is looked whether the files are other ones, so that a renewed certificate serves
from the next connection on. What does not fit, or cannot be read, leaves the one that serves.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Protocol

from wherry.errors import ConfigError

log = logging.getLogger("wherry.server")


class Files(Protocol):
    """Where a server's certificate chain and key are, as PEM.

    With `client_ca` only clients with a certificate signed by it are let in (mutual TLS).
    """

    @property
    def certificate(self) -> Path:
        """The chain."""
        ...

    @property
    def key(self) -> Path:
        """The private key."""
        ...

    @property
    def client_ca(self) -> Path | None:
        """Who signs the certificates of clients; None: clients need none."""
        ...


class Certificates:
    """What a server listens with; its context asks it again at every handshake."""

    def __init__(self, files: Files) -> None:
        """Read the files. Raises ConfigError if they cannot serve."""
        self._files = files
        self._said = ""
        try:
            self._stamp: list[tuple[int, int, int]] = self._stamped()
            self._serving: ssl.SSLContext = self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS cannot be served: {_told(error)}") from error

    @property
    def context(self) -> ssl.SSLContext:
        """The context to listen with."""
        return self._serving

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        self._renew()
        connection.context = self._serving

    def _renew(self) -> None:
        try:
            stamp = self._stamped()
            if stamp == self._stamp:
                return
            found = self._read()
            if self._stamped() != stamp:
                # They are being written just now: the next connection looks again.
                return
        except (OSError, ValueError) as error:
            said = _told(error)
            if said != self._said:
                self._said = said
                log.error("the new TLS files cannot serve, the old ones go on: %s", said)
            return
        self._stamp, self._serving, self._said = stamp, found, ""
        log.info("serving the new certificate in %s", self._files.certificate)

    def _stamped(self) -> list[tuple[int, int, int]]:
        files = self._files
        stats = [path.stat() for path in (files.certificate, files.key, files.client_ca) if path]
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Without a password of its own OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        context.sni_callback = self._choose
        return context


def _told(error: Exception) -> str:
    # An SSLError says which file only in words of its own.
    return f"{type(error).__name__}: {error}"
