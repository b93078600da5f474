"""The HTTP door: every verb as JSON under /api/v1, described by the table that routes it."""

from wherry.server.http.door import DEFAULT_ADDRESS, HttpDoor, HttpSettings

__all__ = ["DEFAULT_ADDRESS", "HttpDoor", "HttpSettings"]
