"""TLS for the HTTP door: a context that chooses, at each handshake, the certificate that serves."""

from __future__ import annotations

import ssl

from wherry.server.tls import Certificates, TLSFiles, loaded


def listening_context(files: TLSFiles) -> ssl.SSLContext:
    """Return the context to listen with. Raises ConfigError if the files cannot serve."""

    def read(files: TLSFiles) -> ssl.SSLContext:
        context = loaded(files)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        context.sni_callback = choose
        return context

    def choose(
        connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        certificates.renew()
        connection.context = certificates.serving

    certificates = Certificates(files, read=read)
    return certificates.serving
