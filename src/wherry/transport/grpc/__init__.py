"""Carries commands to a Wherry server over gRPC; nothing in here is imported before it is needed.

What it needs is an extra of the package: import its modules inside `needed()`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from wherry.errors import ConfigError

# The packages of the extra, as they are imported.
_OF_THE_EXTRA = ("grpc", "google")


def hush() -> None:
    """Keep gRPC from writing to stderr by itself, past every log, of each failed handshake.

    It reads this when it is imported first; whoever wants those lines sets it.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@contextmanager
def needed() -> Generator[None, None, None]:
    """Raise ConfigError where an import inside fails since the extra is not installed."""
    hush()
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ConfigError(
            "a server's address needs gRPC, which is not installed: pip install 'wherry[grpc]'"
        ) from error
