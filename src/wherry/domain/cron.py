"""When a schedule's times are: a cron expression in a time zone, and what to do about those due.

Pure: the instants come from whoever asks, and they are the database's. Which local time is which
instant is cronsim's answer, which does as Debian's cron: a time of day comes once a local day, at
the jump if clocks skip it; what says `*` for its minutes or hours goes by real time. Three things
that it does not see to are seen to here: no instant comes twice, none before the one asked for
(it would tell a time of day of the first of two equal hours while the second is under way), and
what goes by real time bears any change of clocks, by half an hour or at half past.
"""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from cronsim import CronSim, CronSimError

from wherry.domain.options import check_text
from wherry.errors import InvalidOption

W = TypeVar("W", bound=StrEnum)

LONGEST_EXPRESSION_BYTES: Final = 255
# What `missed="all"` makes up for at most, the newest of them.
MOST_MADE_UP: Final = 100
# What `missed="skip"` still takes for in time.
IN_TIME: Final = timedelta(seconds=60)
# So many times are looked at in one step, so that neither a worker's loop nor a lock is held for
# long; what a week of minutes takes is a few such steps.
LOOK_AT: Final = 1000

_SECOND: Final = timedelta(seconds=1)
# Farther cronsim does not look.
_FIFTY_YEARS: Final = timedelta(days=50 * 366)
# No zone changes its clocks to and fro within this.
_STEADY: Final = timedelta(days=7)

_FIELDS: Final = {
    "Bad second": "its seconds are none of 0 to 59",
    "Bad minute": "its minutes are none of 0 to 59",
    "Bad hour": "its hours are none of 0 to 23",
    "Bad day-of-month": "its days are none of 1 to 31, L or LW, or none that its months have",
    "Bad month": "its months are none of 1 to 12 or JAN to DEC",
    "Bad day-of-week": "its days of the week are none of 0 to 7, SUN to SAT, 5L or MON#2",
}
# Names that mean something else, or nothing, on the next machine.
_OF_ONE_MACHINE: Final = ("localtime", "Factory", "posix", "right/")
_FORM: Final = "write `minute hour day month weekday`, such as `0 3 * * *` for 3 o'clock each day"


class Missed(StrEnum):
    """What becomes of times that nobody saw to: the last is made up for, all are, or none."""

    LAST = "last"
    ALL = "all"
    SKIP = "skip"


class Overlap(StrEnum):
    """Whether a time brings a task while one of an earlier time has not ended."""

    ALLOW = "allow"
    SKIP = "skip"


class TickOutcome(StrEnum):
    """What became of a tick, a planned time.

    A task came of it; it was missed; the task before had not ended; the schedule was paused. What
    was run by hand is no tick, and stands beside them.
    """

    FIRED = "fired"
    MISSED = "missed"
    OVERLAPPED = "overlapped"
    PAUSED = "paused"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class Cron:
    """A checked expression and the zone in which it is read."""

    expression: str
    tz: str

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Yield the times behind *instant*, in UTC, each once and each later than the last.

        It ends if there is none within fifty years.
        """
        zone = _zone(self.tz)
        last = instant.astimezone(UTC)
        if zone is not UTC and self._goes_by_real_time:
            yield from self._by_real_time(last, zone)
            return
        for local in CronSim(self.expression, last.astimezone(zone)):
            here = local.astimezone(UTC)
            if here > last:
                last = here
                yield here

    def next_after(self, instant: datetime) -> datetime:
        """Return the first time behind *instant*. Raises InvalidOption if there is none."""
        found = next(self.after(instant), None)
        if found is None:
            reason = "it has no time within fifty years: is there such a day?"
            raise InvalidOption("cron", self.expression, reason)
        return found

    @property
    def _goes_by_real_time(self) -> bool:
        fields = self.expression.split()
        return len(fields) == 6 or "*" in (fields[0][0], fields[1][0])

    def _by_real_time(self, last: datetime, zone: tzinfo) -> Iterator[datetime]:
        """Yield the times behind *last*, asking by clocks that never change from one change on.

        Asked by those of *zone* cronsim goes on by whole hours. Where clocks change by part of an
        hour, or in the middle of one, it passes over times until the next midnight; and where they
        go back to before the beginning of an hour, as in Pacific/Chatham, it goes back for ever.
        """
        asked, offset = last, last.astimezone(zone).utcoffset()
        steady = last
        while asked - last < _FIFTY_YEARS:
            for local in CronSim(self.expression, asked.astimezone(_fixed(offset))):
                here = local.astimezone(UTC)
                change = _next_change(zone, steady, here)
                if change is not None:
                    asked, steady = change - _SECOND, change
                    offset = change.astimezone(zone).utcoffset()
                    break
                last = steady = here
                yield here
            else:
                return


def read_cron(expression: object, tz: object = "UTC") -> Cron:
    """Return a checked expression. Raises InvalidOption, which says what is wrong with which field.

    Whether it ever has a time is told by `next_after`.
    """
    text = check_text(expression, option="cron", limit_bytes=LONGEST_EXPRESSION_BYTES)
    zone = check_text(tz, option="tz", limit_bytes=LONGEST_EXPRESSION_BYTES)
    cron = Cron(" ".join(text.split()), zone)
    known = _zone(zone)
    try:
        CronSim(cron.expression, datetime(2000, 1, 1, tzinfo=known))
    except (CronSimError, ValueError, AssertionError, RecursionError) as error:
        reason = _FIELDS.get(str(error), "it is no cron expression")
        raise InvalidOption("cron", text, f"{reason}: {_FORM}") from None
    return cron


def check_missed(missed: object) -> Missed:
    """Return what becomes of missed times. Raises InvalidOption."""
    return _word(Missed, missed, option="missed")


def check_overlap(overlap: object) -> Overlap:
    """Return whether tasks of one schedule may overlap. Raises InvalidOption."""
    return _word(Overlap, overlap, option="overlap")


@dataclass(frozen=True, slots=True)
class Span:
    """Times that follow one another and brought no task, and why not."""

    outcome: TickOutcome
    first: datetime
    last: datetime
    n: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a schedule now.

    `passed` and `fire` together are every time from `next_at` before to `next_at` now, each once.
    """

    passed: tuple[Span, ...]
    fire: tuple[datetime, ...]
    next_at: datetime
    # Whether `next_at` is due as well.
    more: bool


def decide(
    cron: Cron,
    *,
    next_at: datetime,
    now: datetime,
    missed: Missed,
    resumed_at: datetime | None = None,
    look_at: int = LOOK_AT,
) -> Decision:
    """Say which times bring a task, and which are passed over, of those due from *next_at* on.

    Those up to *resumed_at* were in a pause. At most *look_at* times are looked at, more than
    `MOST_MADE_UP`: if more are due, the newest of these are left for the next step, since only the
    last step knows which are the last. Raises InvalidOption if no time comes after these.
    """
    due: list[datetime] = []
    following = next_at
    times = cron.after(next_at)
    while following <= now and len(due) < look_at:
        due.append(following)
        following = next(times, None) or cron.next_after(following)
    in_pause = sum(resumed_at is not None and time <= resumed_at for time in due)
    paused, rest = due[:in_pause], due[in_pause:]
    newest = MOST_MADE_UP if missed is Missed.ALL else 1
    passed, fire = rest[:-newest], rest[-newest:]
    more = following <= now
    if more:
        following = fire[0] if fire else following
        fire = []
    elif missed is Missed.SKIP and fire and now - fire[-1] > IN_TIME:
        passed, fire = rest, []
    spans = (
        Span(outcome, times[0], times[-1], len(times))
        for outcome, times in ((TickOutcome.PAUSED, paused), (TickOutcome.MISSED, passed))
        if times
    )
    return Decision(tuple(spans), tuple(fire), following, more)


def without_overlaps(
    fire: Sequence[datetime], *, running: bool
) -> tuple[list[datetime], list[Span]]:
    """Return which of these times bring a task if none may overlap, and what becomes of the rest.

    *running*: whether a task of the schedule has not ended. The first brings one otherwise.
    """
    fired = [] if running else list(fire[:1])
    rest = fire[len(fired) :]
    if not rest:
        return fired, []
    return fired, [Span(TickOutcome.OVERLAPPED, rest[0], rest[-1], len(rest))]


def _word(words: type[W], word: object, *, option: str) -> W:
    if isinstance(word, str) and word in set(words):
        return words(word)
    raise InvalidOption(option, word, f"choose one of {', '.join(words)}")


def _next_change(zone: tzinfo, start: datetime, end: datetime) -> datetime | None:
    """Return the first instant behind *start*, up to *end*, at which clocks of *zone* change."""
    before = start.astimezone(zone).utcoffset()
    while start < end:
        until = min(start + _STEADY, end)
        if until.astimezone(zone).utcoffset() != before:
            while until - start > _SECOND:
                middle = start + (until - start) // 2
                steady = middle.astimezone(zone).utcoffset() == before
                start, until = (middle, until) if steady else (start, middle)
            return until.replace(microsecond=0)
        start = until
    return None


def _fixed(offset: timedelta | None) -> timezone:
    return timezone(offset or timedelta())


@lru_cache(maxsize=128)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        # The very object for which cronsim need not look at any jump.
        return UTC
    if name.startswith(_OF_ONE_MACHINE):
        reason = "the next machine may have another one under this name: name one such as"
        raise InvalidOption("tz", name, f"{reason} Europe/Berlin")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        likely = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=3, cutoff=0.6)
    advice = f"did you mean {' or '.join(likely)}?" if likely else "name one such as Europe/Berlin"
    raise InvalidOption("tz", name, f"no time zone of this name is known here: {advice}")
