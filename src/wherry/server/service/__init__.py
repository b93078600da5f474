"""What a server can be asked, whatever door it came through.

The doors decode and encode; here is decided who may do what, and every call is checked by the same
code that checks a call of the library. Nothing about the queue itself is decided here: that is the
commands' business.
"""

from wherry.server.service.base import within
from wherry.server.service.service import Service
from wherry.server.service.values import (
    Answered,
    Asked,
    AskedSchedule,
    Beat,
    Beaten,
    Change,
    Changed,
    Leased,
    ServerInfo,
    Told,
)

__all__ = [
    "Answered",
    "Asked",
    "AskedSchedule",
    "Beat",
    "Beaten",
    "Change",
    "Changed",
    "Leased",
    "ServerInfo",
    "Service",
    "Told",
    "within",
]
