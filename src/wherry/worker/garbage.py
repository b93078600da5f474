"""Has a worker's process search for garbage rarely: little of what it makes is any."""

from __future__ import annotations

import gc

# So many more objects than before before the youngest are searched for garbage, in place of 700: a
# lease of a thousand tasks is several times that by itself, and almost nothing of it is garbage.
_FEWEST_TO_SEARCH = 10_000


def collect_rarely() -> None:
    """Spend less on the collection of garbage; for a process that is nobody's but a worker's.

    What there is by now stays, and is not searched again. An App whose modules set a threshold of
    their own, or turned collection off, keeps it.
    """
    youngest, *others = gc.get_threshold()
    if gc.isenabled() and 0 < youngest < _FEWEST_TO_SEARCH:
        gc.collect()
        gc.freeze()
        gc.set_threshold(_FEWEST_TO_SEARCH, *others)
