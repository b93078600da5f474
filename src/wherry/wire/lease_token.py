"""The lease token: what a client holds of a lease, opaque to it.

It is not signed. What makes it hard to guess is the lease's own id, 122 random bits that only the
holder was told, and every statement compares all that is in it with the database: a token that was
changed names a lease that does not exist (docs/adr/0014-lease-tokens-are-not-signed.md).
"""

from __future__ import annotations

import base64
import binascii
import struct
import uuid
from time import monotonic

from wherry.domain.lease import LeaseRef
from wherry.domain.options import HIGHEST_ID, LONGEST_NAME_BYTES
from wherry.errors import InvalidOption

_VERSION = 1
_FIXED = struct.Struct(">BQQ16s")
_LONGEST = (_FIXED.size + LONGEST_NAME_BYTES) * 4 // 3 + 4


def write_lease_token(lease: LeaseRef) -> str:
    """Return the text that stands for *lease*."""
    fixed = _FIXED.pack(_VERSION, lease.id, lease.token, uuid.UUID(lease.lease_id).bytes)
    return base64.urlsafe_b64encode(fixed + lease.queue.encode()).rstrip(b"=").decode()


def read_lease_token(text: str, *, option: str = "lease") -> LeaseRef:
    """Return the lease that *text* stands for; its deadline is unknown, and says that it is past.

    Raises InvalidOption for a text that is no lease token.
    """
    if len(text) > _LONGEST:
        raise InvalidOption(option, text, "is too long to be a lease token")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        version, id, token, lease_id = _FIXED.unpack_from(data)
        queue = data[_FIXED.size :].decode()
    except (binascii.Error, struct.error, UnicodeError, ValueError):
        raise InvalidOption(option, text, "is no lease token: send it as it was given") from None
    if version != _VERSION or not 0 < id <= HIGHEST_ID or token > HIGHEST_ID:
        raise InvalidOption(option, text, "is no lease token of this server's version")
    if not queue or "\0" in queue:
        raise InvalidOption(option, text, "is no lease token: send it as it was given")
    return LeaseRef(monotonic(), id, queue, token, str(uuid.UUID(bytes=lease_id)))
