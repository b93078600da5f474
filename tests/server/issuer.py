"""Certificates for the tests of TLS, of either door."""

from __future__ import annotations

from pathlib import Path

import trustme

from wherry.server.tls import TLSFiles


class Issuer:
    """Writes certificates for localhost into files, each time by an authority of its own."""

    def __init__(self, folder: Path) -> None:
        self.files = TLSFiles(certificate=folder / "cert.pem", key=folder / "key.pem")
        self.ca = self.renew()

    def renew(self) -> trustme.CA:
        self.ca = trustme.CA()
        issued = self.ca.issue_cert("localhost")
        self.files.certificate.write_bytes(b"".join(c.bytes() for c in issued.cert_chain_pems))
        self.files.key.write_bytes(issued.private_key_pem.bytes())
        return self.ca
