"""What all bodies have in common.

Requests take null for "not given" and refuse fields that are not known; answers leave out what is
not there.
"""

from __future__ import annotations

from msgspec import Struct


class Request(Struct, kw_only=True, forbid_unknown_fields=True):
    """The ground of what is sent: unknown fields are refused."""


class Answer(Struct, kw_only=True, omit_defaults=True):
    """The ground of what is answered."""
