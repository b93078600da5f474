"""The HTTP door: every verb as JSON under /api/v1, described by the table that routes it."""

from wherry.server.http.door import HttpDoor, HttpSettings

__all__ = ["HttpDoor", "HttpSettings"]
