"""TLS for the gRPC door: the files' contents, which gRPC asks for at each new connection."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from wherry.server.tls import Certificates, TLSFiles, loaded

# The chain, the key, and who signs clients' certificates.
_Contents: TypeAlias = tuple[bytes, bytes, bytes | None]


def listening_credentials(files: TLSFiles) -> grpc.ServerCredentials:
    """Return what to listen with. Raises ConfigError if the files cannot serve."""
    certificates = Certificates(files, read=_read)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        # On a thread of gRPC's; what is raised here would only be printed.
        return _configured(certificates.serving) if certificates.renew() else None

    # None stands for "no change", which its types do not know.
    fetch: Any = renewed
    mutual = files.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(_configured(certificates.serving), fetch, mutual)


def _read(files: TLSFiles) -> _Contents:
    # gRPC itself would not say what is wrong with them.
    loaded(files)
    return (
        files.certificate.read_bytes(),
        files.key.read_bytes(),
        None if files.client_ca is None else files.client_ca.read_bytes(),
    )


def _configured(contents: _Contents) -> grpc.ServerCertificateConfiguration:
    certificate, key, client_ca = contents
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)
