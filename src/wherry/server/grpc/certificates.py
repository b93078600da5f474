"""TLS for the gRPC door: certificates from files, read again when the files have changed.

Whoever renews certificates writes two files, one after the other; between the two they do not fit.
What does not fit, or cannot be read, leaves the certificate that serves in its place.
"""

from __future__ import annotations

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from wherry.errors import ConfigError

log = logging.getLogger("wherry.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSFiles:
    """Where the server's certificate chain and key are, as PEM.

    With `client_ca` only clients with a certificate signed by it are let in (mutual TLS).
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Certificates:
    """The certificate that serves, and the one that will."""

    def __init__(self, files: TLSFiles) -> None:
        """Read the files. Raises ConfigError if they cannot serve."""
        self._files = files
        self._paths = [path for path in (files.certificate, files.key, files.client_ca) if path]
        self._lock = threading.Lock()
        self._said = ""
        try:
            self._stamp = self._stamped()
            self._serving = self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS cannot be served: {_told(error)}") from error

    def credentials(self) -> grpc.ServerCredentials:
        """Return what gRPC listens with; it looks for changed files at each new connection."""
        # None stands for "no change", which its types do not know.
        fetch: Any = self._renewed
        mutual = self._files.client_ca is not None
        return grpc.dynamic_ssl_server_credentials(self._configured(), fetch, mutual)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        # On a thread of gRPC's; what is raised here would only be printed.
        with self._lock:
            try:
                stamp = self._stamped()
                if stamp == self._stamp:
                    return None
                found = self._read()
                if self._stamped() != stamp:
                    # They are being written just now: the next connection looks again.
                    return None
                self._stamp = stamp
                if found == self._serving:
                    return None
                self._serving = found
            except (OSError, ValueError) as error:
                said = _told(error)
                if said != self._said:
                    self._said = said
                    log.error("the new TLS files cannot serve, the old ones go on: %s", said)
                return None
            self._said = ""
            log.info("serving the new certificate in %s", self._files.certificate)
            return self._configured()

    def _configured(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, client_ca = self._serving
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)

    def _stamped(self) -> list[tuple[int, int, int]]:
        stats = [path.stat() for path in self._paths]
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        """Return the files' content. Raises ValueError or OSError if it cannot serve."""
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Without a password of its own OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
        return (
            files.certificate.read_bytes(),
            files.key.read_bytes(),
            None if files.client_ca is None else files.client_ca.read_bytes(),
        )


def _told(error: Exception) -> str:
    # An SSLError says which file only in words of its own.
    return f"{type(error).__name__}: {error}"
