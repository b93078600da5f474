"""Carries commands to a Wherry server over gRPC; nothing in here is imported before it is needed.

What it needs is an extra of the package: import its modules inside `needed()`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from wherry.errors import ConfigError

# The packages of the extra, as they are imported.
_OF_THE_EXTRA = ("grpc", "google")


@contextmanager
def needed() -> Generator[None, None, None]:
    """Raise ConfigError where an import inside fails since the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ConfigError(
            "a server's address needs gRPC, which is not installed: pip install 'wherry[grpc]'"
        ) from error
