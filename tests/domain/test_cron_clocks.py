"""Schedules that go by real time, where the clocks of their zone change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from wherry.domain.cron import read_cron
from wherry.errors import InvalidOption

MINUTE = timedelta(minutes=1)

BY_REAL_TIME = [
    ("*/10 2 * * *", range(0, 60, 10), [2]),
    ("*/10 3 * * *", range(0, 60, 10), [3]),
    ("*/20 0 * * *", range(0, 60, 20), [0]),
    ("15 */2 * * *", [15], range(0, 24, 2)),
    ("0 */3 * * *", [0], range(0, 24, 3)),
    ("45 * * * *", [45], range(24)),
    ("*/7 1-3 * * *", range(0, 60, 7), [1, 2, 3]),
    ("0 5,35 1,4 * * *", [5, 35], [1, 4]),
]


@pytest.mark.parametrize(
    ("tz", "change"),
    [
        ("Australia/Lord_Howe", "2026-04-04 15:00"),  # 02:00 is 01:30
        ("Australia/Lord_Howe", "2026-10-03 15:30"),  # 02:00 is 02:30
        ("Asia/Pyongyang", "2015-08-14 15:00"),  # 00:00 is 23:30
        ("Asia/Pyongyang", "2018-05-04 15:00"),  # 23:30 is 00:00
        ("America/Caracas", "2007-12-09 07:00"),  # 03:00 is 02:30
        ("America/Caracas", "2016-05-01 07:00"),  # 02:30 is 03:00
        ("Asia/Kathmandu", "1985-12-31 18:30"),  # 00:00 is 00:15
        ("Pacific/Chatham", "2026-04-04 14:00"),  # 03:45 is 02:45
        ("Pacific/Chatham", "2026-09-26 14:00"),  # 02:45 is 03:45
        ("America/St_Johns", "2011-03-13 03:31"),  # 00:01 is 01:01
        ("Antarctica/Troll", "2026-03-29 01:00"),  # 01:00 is 03:00
        ("Antarctica/Troll", "2026-10-25 01:00"),  # 03:00 is 01:00
    ],
)
@pytest.mark.parametrize(
    ("expression", "minutes", "hours"), BY_REAL_TIME, ids=[each[0] for each in BY_REAL_TIME]
)
def test_what_goes_by_real_time_has_every_minute_that_fits_however_clocks_change(
    expression: str, minutes: Sequence[int], hours: Sequence[int], tz: str, change: str
) -> None:
    """CRON-02: by half an hour too, wherever a scheduler begins."""
    zone = ZoneInfo(tz)
    changed = datetime.fromisoformat(change).replace(tzinfo=UTC)
    around = [changed + n * MINUTE for n in range(-26 * 60, 30 * 60)]
    fitting = [
        time
        for time in around
        if (local := time.astimezone(zone)).minute in minutes and local.hour in hours
    ]

    for begun in (around[0], *around[24 * 60 : 28 * 60 : 11], changed):
        rest = [time for time in fitting if time > begun]
        assert list(islice(read_cron(expression, tz).after(begun), len(rest))) == rest


def test_what_never_comes_for_the_clocks_of_its_zone_is_told_so() -> None:
    """On the second Sunday of March there is no 02:00 in New York."""
    cron = read_cron("*/5 2 * 3 SUN#2", "America/New_York")

    with pytest.raises(InvalidOption, match="within fifty years"):
        cron.next_after(datetime(2026, 1, 1, tzinfo=UTC))
