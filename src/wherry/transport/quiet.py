"""Keeps what our own pools say about their reconnecting out of the log of their program.

While a database is down a pool warns at every try; what a caller has to know of it, our errors say.
The pools of the program itself share the logger, and none of their records is touched.
"""

from __future__ import annotations

import logging
from itertools import count

from wherry.transport.bounded import AsyncConnection, Connection

_PREFIX = "wherry-pool-"
_numbers = count(1)


class _OfOthers(logging.Filter):
    """Lets pass what is no error only if it is not about a pool or a connection of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        told_of = record.args if isinstance(record.args, tuple) else ()
        return record.levelno >= logging.ERROR or not any(map(_is_ours, told_of))


_of_others = _OfOthers()


def quiet_pool() -> str:
    """Return a name for a pool that is not to be heard below an error."""
    # Adding a filter that is there already does nothing.
    logging.getLogger("psycopg.pool").addFilter(_of_others)
    return f"{_PREFIX}{next(_numbers)}"


def _is_ours(thing: object) -> bool:
    return (type(thing) is str and thing.startswith(_PREFIX)) or isinstance(
        thing, Connection | AsyncConnection
    )
