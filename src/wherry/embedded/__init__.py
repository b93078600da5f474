"""A PostgreSQL that Wherry starts itself, shared by every process of a user.

`acquire` starts it or joins it, and it stops when the last process that acquired it has let go
or died, however it died. Newcomers look for the code that stops the server in `release`: it is
not there. Letting go closes a locked file, and the keeper process, which waits for that lock,
does the rest; so a SIGKILL is no different from a clean end.
"""

from __future__ import annotations

from wherry.embedded.acquire import Embedded, acquire, running
from wherry.embedded.find import Binaries, find_all, find_binaries
from wherry.embedded.home import default_home, parse

__all__ = [
    "Binaries",
    "Embedded",
    "acquire",
    "default_home",
    "find_all",
    "find_binaries",
    "parse",
    "running",
]
