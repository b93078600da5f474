"""What a JSON merge patch (RFC 7396) does to payloads, in the words of an audit.

It is merged in the database, by `merge_patch` of migration 18: nothing here does it once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

# Of a patch so many members are named, and of a name so many characters are kept.
_MOST_NAMED: Final = 100
_LONGEST: Final = 200


def members_of(patch: str) -> dict[str, Any]:
    """Return which members a patch sets and removes, as paths, without what it sets them to.

    Values may be what only the readers of a queue are to know; the audit has other readers.
    """
    setting: list[str] = []
    removing: list[str] = []
    # Values are not looked at, and an integer may be longer than this interpreter is set to read.
    for path, value in _leaves(json.loads(patch, parse_int=str), ()):
        (removing if value is None else setting).append(".".join(path)[:_LONGEST])
    said: dict[str, Any] = {}
    if setting:
        said["set"] = setting[:_MOST_NAMED]
    if removing:
        said["removed"] = removing[:_MOST_NAMED]
    more = sum(max(0, len(paths) - _MOST_NAMED) for paths in (setting, removing))
    return said | ({"more": more} if more else {})


def _leaves(
    patch: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), (*path, name))
        else:
            yield (*path, name), value
